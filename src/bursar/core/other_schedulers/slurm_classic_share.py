"""Slurm's classic fair-share factor, one number per tenant.

It falls as usage exceeds shares. Sites that move to Bursar have tuned their weights for it, and unlike Fair
Tree it shows on one scale for the whole tree how far a tenant is above its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bursar.core.other_schedulers.slurm_fair_tree import ShareTree


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicShare:
    """The factor and its inputs, which are fractions of the whole tree."""

    norm_shares: float
    norm_usage: float
    effective_usage: float
    factor: float


def classic_shares(
    tree: ShareTree, usage: Mapping[str, float], dampening: float = 1.0
) -> dict[str, ClassicShare]:
    """The factor of every tenant below the root. ``usage`` of an account includes all below it.

    A tenant is also charged for what its siblings used, in proportion to its shares: that is the
    effective usage ``UE = U + (UE of the parent - U) * shares / shares of the level``. Tenants
    directly below the root are charged for their own usage only. The factor is ``2 ** -(UE / S /
    dampening)``: 0.5 for a tenant that used exactly its share, 0 for a tenant without shares.
    """
    total = usage[tree.root]
    by_tenant: dict[str, ClassicShare] = {}

    def visit(parent: str) -> None:
        for tenant in tree.children(parent):
            used = min(usage[tenant] / total, 1.0) if total else 0.0
            by_tenant[tenant] = _share_of(tree, tenant, used, by_tenant.get(parent), dampening)
            visit(tenant)

    visit(tree.root)
    return by_tenant


def _share_of(
    tree: ShareTree, tenant: str, used: float, parent: ClassicShare | None, dampening: float
) -> ClassicShare:
    """One tenant's share, from its parent's (``None`` directly below the root)."""
    parent_shares = parent.norm_shares if parent is not None else 1.0
    if tree.holder(tenant).shares is None:
        norm_shares = parent_shares
        effective = parent.effective_usage if parent is not None else used
    else:
        fraction = tree.fraction_of_level(tenant)
        norm_shares = parent_shares * fraction
        effective = used if parent is None else used + (parent.effective_usage - used) * fraction
    return ClassicShare(
        norm_shares=norm_shares,
        norm_usage=used,
        effective_usage=effective,
        factor=2.0 ** -(effective / norm_shares / dampening) if norm_shares > 0 else 0.0,
    )

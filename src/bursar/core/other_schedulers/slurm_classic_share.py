"""Slurm's classic fair-share factor, one number per tenant.

It halves as usage outgrows shares. Sites that move to Bursar have tuned their weights against it, and it
answers a question that Fair Tree does not: how far above its share a tenant is, on one scale for the whole
tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bursar.core.other_schedulers.slurm_fair_tree import ShareTree


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicShare:
    """The numbers the factor is made of, each a fraction of the whole tree."""

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
    directly below the root pay for themselves alone. The factor is ``2 ** -(UE / S /
    dampening)``: a half for one who used exactly its share, and 0 for one who has none.
    """
    total = usage[tree.root]
    found: dict[str, ClassicShare] = {}

    def visit(parent: str) -> None:
        for tenant in tree.children(parent):
            used = min(usage[tenant] / total, 1.0) if total else 0.0
            found[tenant] = _share_of(tree, tenant, used, found.get(parent), dampening)
            visit(tenant)

    visit(tree.root)
    return found


def _share_of(
    tree: ShareTree, tenant: str, used: float, above: ClassicShare | None, dampening: float
) -> ClassicShare:
    """One tenant's numbers, given its parent's (``None`` directly below the root)."""
    whole = above.norm_shares if above is not None else 1.0
    if tree.holder(tenant).shares is None:
        norm_shares = whole
        effective = above.effective_usage if above is not None else used
    else:
        part = tree.part_of_level(tenant)
        norm_shares = whole * part
        effective = used if above is None else used + (above.effective_usage - used) * part
    return ClassicShare(
        norm_shares=norm_shares,
        norm_usage=used,
        effective_usage=effective,
        factor=2.0 ** -(effective / norm_shares / dampening) if norm_shares > 0 else 0.0,
    )

"""Slurm's Fair Tree: ranks tenants level by level.

At every level of the tree siblings are compared only with each other. A sibling's *level fair
share* is its share of the parent divided by the fraction it has used, ``LF = (shares /
shares of the level) / (usage / usage of the parent)``. All users below a sibling with a higher LF
go before all users below one with a lower LF, so usage inside a team never affects the order of
other teams.

Two forms of the same order:

* :func:`rank_fair_tree` walks the whole tree and gives every user a rank and a factor, ties
  included.
* :class:`FairTreeKeys` gives one leaf a sort key in O(depth), for a scheduler that compares a few
  tenants per cycle and maintains usage incrementally.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from bursar.core.state.tenant_usage import TenantUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHolder:
    """One node of the tree. ``shares=None`` inherits the parent's shares.

    A user with inherited shares goes first in its account. An account with inherited shares is
    flattened: its children compete one level up.
    """

    tenant: str
    parent: str | None
    shares: int | None
    is_user: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FairRank:
    """A user's rank: counts down from the number of users; ``factor`` is rank / users."""

    rank: int
    factor: float


class ShareTree:
    """The tree without flattened accounts, with the sum of each level's shares."""

    def __init__(self, holders: Iterable[ShareHolder]) -> None:
        self._holders = {holder.tenant: holder for holder in holders}
        roots = sorted(h.tenant for h in self._holders.values() if h.parent is None)
        if len(roots) != 1:
            raise ValueError(f"a share tree has one root; these have no parent: {roots}")
        self.root = roots[0]
        self._competing_parent = {t: self._find_competing_parent(t) for t in self._holders}
        self._children: dict[str, list[str]] = {}
        self._level_shares: dict[str, int] = {}
        for tenant in sorted(self._holders):
            parent = self._competing_parent[tenant]
            if parent is not None and not self._is_flattened(tenant):
                self._children.setdefault(parent, []).append(tenant)
                shares = self._holders[tenant].shares or 0
                self._level_shares[parent] = self._level_shares.get(parent, 0) + shares

    def holder(self, tenant: str) -> ShareHolder:
        return self._holders[tenant]

    def users(self) -> list[str]:
        return sorted(h.tenant for h in self._holders.values() if h.is_user)

    def children(self, tenant: str) -> list[str]:
        """The tenants that compete under this one, by id, with children of flattened accounts."""
        return self._children.get(tenant, [])

    def competing_parent(self, tenant: str) -> str | None:
        """The ancestor under which the tenant competes; ``None`` for the root."""
        return self._competing_parent[tenant]

    def fraction_of_level(self, tenant: str) -> float:
        """The tenant's fraction of its level's shares; 0 if the level has none."""
        parent = self._competing_parent[tenant]
        level = self._level_shares.get(parent, 0) if parent is not None else 0
        return (self._holders[tenant].shares or 0) / level if level else 0.0

    def _is_flattened(self, tenant: str) -> bool:
        holder = self._holders[tenant]
        return holder.shares is None and not holder.is_user and holder.parent is not None

    def _find_competing_parent(self, tenant: str) -> str | None:
        parent = self._holders[tenant].parent
        while parent is not None and self._is_flattened(parent):
            parent = self._holders[parent].parent
        return parent


def level_fair_share(
    holder: ShareHolder, fraction: float, usage: float, parent_usage: float
) -> float:
    """Fraction of shares over fraction of usage among siblings: above 1 is under-served.

    A fraction of 0 gives 0, which ranks last, even without usage. No usage (of the tenant or of the
    whole parent) gives infinity. The order of these two checks matters and is Slurm's.
    """
    if holder.shares is None:
        return inf
    if fraction == 0:
        return 0.0
    used = usage / parent_usage if parent_usage else 0.0
    return fraction / used if used else inf


def rank_fair_tree(tree: ShareTree, usage: Mapping[str, float]) -> dict[str, FairRank]:
    """Rank every user. ``usage`` of an account includes everything below it.

    Ties follow Slurm's code, which differs from its documentation in one point. Siblings are sorted
    by LF, users before accounts when equal. A user whose LF equals the previous sibling's gets the
    same rank, and so does the first user inside an account that ties with the previous sibling.
    Slurm's documentation merges tied accounts before descending; its code visits them one after the
    other, and so do we. (Slurm does not specify the order of ties; ours is by id.)
    """
    count = len(tree.users())
    rank = untied_rank = count
    ranks: dict[str, FairRank] = {}

    def visit(parent: str, starts_tied: bool) -> None:
        nonlocal rank, untied_rank
        previous: float | None = None
        for order, tenant in _siblings_in_order(tree, parent, usage):
            tied = starts_tied if previous is None else previous == order
            previous = order
            if tree.holder(tenant).is_user:
                rank = rank if tied else untied_rank
                ranks[tenant] = FairRank(rank=rank, factor=rank / count)
                untied_rank -= 1
            else:
                visit(tenant, tied)

    visit(tree.root, False)
    return ranks


def _siblings_in_order(
    tree: ShareTree, parent: str, usage: Mapping[str, float]
) -> list[tuple[float, str]]:
    """The competitors under ``parent`` as (minus LF, tenant), highest LF first."""
    keyed = []
    for tenant in tree.children(parent):
        holder = tree.holder(tenant)
        fraction = tree.fraction_of_level(tenant)
        fair_share = level_fair_share(holder, fraction, usage[tenant], usage[parent])
        keyed.append((-fair_share, not holder.is_user, tenant))
    return [(order, tenant) for order, _, tenant in sorted(keyed)]


FairTreeKey = tuple[float | bool | str, ...]


class FairTreeKeys:
    """Fair Tree sort keys of single leaves, over incrementally updated usage.

    The key of a leaf is, for each competitor on the path from the root down to it,
    ``(-LF, is an account, id)``, all in one flat tuple. Smaller goes first.

    *Sorting leaves by key is the order in which* :func:`rank_fair_tree` *visits them.* Take two
    leaves and the lowest competitor A that is above both (their paths agree down to A, hence so
    do their keys, value by value: both read the same shares and the same usage). Below A they go
    through two different children, which are siblings in the full ranking; there the keys differ
    for the first time, since the ids differ, and compare exactly as the full ranking sorts those
    siblings. The full ranking visits everything under one sibling before anything under the next,
    so the leaves come in the same order. Neither key is a prefix of the other: a path ends at its
    user, and users have no children. Ranks never rise along the visit, so a smaller key never has
    a lower rank.

    The tree is immutable: build a new one when tenants or shares change. That is rare, and every path
    and every level's sum is computed only once.

    *Decay alone does not change the order.* Without running jobs every usage shrinks by the same
    factor, which cancels in ``usage / usage of the parent``: a key stays valid until a job starts or
    stops.
    """

    def __init__(self, tree: ShareTree, usage: TenantUsage, horizon_ms: int = 0) -> None:
        """``horizon_ms``: how far ahead running jobs count (see `TenantUsage.pressure`)."""
        self._tree = tree
        self._usage = usage
        self._horizon_ms = horizon_ms
        self._paths: dict[str, tuple[tuple[ShareHolder, float], ...]] = {}

    def fair_tree_key(self, tenant: str, now_ms: int) -> FairTreeKey:
        """The tenant's sort key at ``now_ms``; compare only keys of the same time."""
        key: list[float | bool | str] = []
        path = self._path(tenant)
        for (holder, _), fair_share in zip(
            path, self.level_fair_shares(tenant, now_ms), strict=True
        ):
            key += (-fair_share, not holder.is_user, holder.tenant)
        return tuple(key)

    def level_fair_shares(self, tenant: str, now_ms: int) -> tuple[float, ...]:
        """LF at every level from below the root down to the tenant, for display."""
        pressure, horizon_ms = self._usage.pressure, self._horizon_ms
        parent_usage = pressure(self._tree.root, now_ms, horizon_ms)
        fair_shares = []
        for holder, fraction in self._path(tenant):
            usage = pressure(holder.tenant, now_ms, horizon_ms)
            fair_shares.append(level_fair_share(holder, fraction, usage, parent_usage))
            parent_usage = usage
        return tuple(fair_shares)

    def _path(self, tenant: str) -> tuple[tuple[ShareHolder, float], ...]:
        """The competitors from below the root down to the tenant, cached per tenant."""
        path = self._paths.get(tenant)
        if path is None:
            steps = []
            current: str | None = tenant
            while current is not None and current != self._tree.root:
                steps.append((self._tree.holder(current), self._tree.fraction_of_level(current)))
                current = self._tree.competing_parent(current)
            path = self._paths[tenant] = tuple(reversed(steps))
        return path


def share_tree_of(parents: Mapping[str, str | None], shares: Mapping[str, int | None]) -> ShareTree:
    """The share tree of a tenant tree, whose leaves are the users that own jobs."""
    parent_tenants = {parent for parent in parents.values() if parent is not None}
    return ShareTree(
        ShareHolder(
            tenant=tenant,
            parent=parents[tenant],
            shares=shares.get(tenant, 1),
            is_user=tenant not in parent_tenants,
        )
        for tenant in sorted(parents)
    )

"""The dominant resource share of a tenant, from what it borrows.

Two tenants are compared by the resource of which each borrows the largest fraction, divided by the
tenant's weight. The comparison uses the unrounded value: shares that are equal only when rounded
would make preemption go back and forth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import total_ordering

from bursar.core.quota.quota_tree import QuotaTree
from bursar.model.tenants.tenant import FlavorResource


@total_ordering
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DominantShare:
    """One tenant's dominant share; greater means less deserving of more."""

    weight: float
    ratio: float
    """Thousandths borrowed of all that could be lent, before the weight."""
    resource: str
    """The resource that decides, or nothing if nothing is borrowed."""
    borrowed: frozenset[FlavorResource]

    @property
    def borrowing(self) -> bool:
        """Whether anything is used above quota, even what no tenant could lend."""
        return bool(self.borrowed)

    @property
    def infinite(self) -> bool:
        """A tenant without weight is entitled to no borrowing: any is infinitely too much."""
        return self.weight == 0 and self.borrowing

    @property
    def weighted(self) -> float:
        """The share that is compared, unless both sides are infinite."""
        if self.infinite:
            return math.inf
        return self.ratio / self.weight if self.ratio else 0.0

    @property
    def rank(self) -> tuple[float, float]:
        """Sorts like the share; infinite ones among themselves by what they borrow."""
        return (math.inf, self.ratio) if self.infinite else (self.weighted, 0.0)

    def __eq__(self, other: object) -> bool:
        return self.rank == other.rank if isinstance(other, DominantShare) else NotImplemented

    def __lt__(self, other: DominantShare) -> bool:
        return self.rank < other.rank

    def __hash__(self) -> int:
        return hash(self.rank)


def dominant_share(
    tree: QuotaTree, name: str, extra: Mapping[FlavorResource, int] | None = None
) -> DominantShare:
    """The share of a tenant, as if it also used ``extra``; a root borrows nothing."""
    weight = tree.weight(name)
    above = tree.parent(name)
    borrowed = {} if above is None else tree.borrowed(name, extra)
    if above is None or not borrowed:
        return DominantShare(weight=weight, ratio=0.0, resource="", borrowed=frozenset())
    by_resource: dict[str, int] = {}
    for (_, resource), amount in borrowed.items():
        by_resource[resource] = by_resource.get(resource, 0) + amount
    lendable = tree.lendable(above)
    ratio, dominant = 0.0, ""
    for resource in sorted(by_resource):
        lent_at_most = lendable.get(resource, 0)
        if lent_at_most > 0:
            part = by_resource[resource] * 1000.0 / lent_at_most
            if part > ratio:
                ratio, dominant = part, resource
    return DominantShare(
        weight=weight, ratio=ratio, resource=dominant, borrowed=frozenset(borrowed)
    )

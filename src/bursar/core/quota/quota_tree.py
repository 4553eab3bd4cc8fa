"""The quota tree: what each queue may use and what it borrows.

Quotas are nominal amounts over a tree of tenants, with a limit on what a tenant may borrow from
above and on what it may lend there; the arithmetic is the one Kueue publishes. The tree lives as
long as the scheduler and is updated at every start and stop, so nothing is summed again: one *cell*
per tenant and flavor-resource has its usage and its parent's cell, and both a query and an update
walk from a queue to its root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bursar.model.tenants.tenant import FlavorResource, Quota

UNLIMITED: Final[int] = 2**63 - 1
"""An amount that no sum exceeds and no usage diminishes."""

# Only something unlimited can leave this much free: real amounts are far smaller, in any unit.
_NEARLY_UNLIMITED: Final[int] = UNLIMITED // 2


_NOTHING: Final[Quota] = Quota()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNode:
    """One tenant of the tree as it is declared; a queue is a leaf, and a root may be a queue."""

    name: str
    parent: str | None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: float = 1.0
    is_queue: bool


class BorrowLevel(NamedTuple):
    """How far up the tree a request must borrow (0: not at all)."""

    height: int
    may_reclaim: bool
    """Whether tenants above the lender may be holding what its subtree is entitled to."""


class _Cell:
    """One flavor-resource at one tenant; only ``usage`` and ``borrowers`` ever change."""

    __slots__ = ("borrowers", "cap", "local", "parent", "potential", "root", "subtree", "usage")

    def __init__(self, quota: Quota, subtree: int, parent: _Cell | None) -> None:
        lent = _lent(quota, subtree)
        limit = quota.borrowing_limit
        self.usage = 0
        self.subtree = subtree
        self.local = UNLIMITED if lent < subtree >= UNLIMITED else subtree - lent
        self.cap = None if limit is None else lent + limit
        self.parent = parent
        self.root: _Cell = self if parent is None else parent.root
        self.borrowers: set[str] = set()
        self.potential = subtree
        if parent is not None:
            self.potential = min(UNLIMITED, self.local + parent.potential)
            if limit is not None:
                self.potential = min(self.potential, subtree + limit)


def _lent(quota: Quota, subtree: int) -> int:
    """The part of a subtree's quota that its parent may count on."""
    return subtree if quota.lending_limit is None else min(subtree, quota.lending_limit)


class _Node:
    __slots__ = ("cells", "children", "declared", "height", "lendable", "parent", "spec")

    def __init__(self, spec: QuotaNode) -> None:
        self.spec = spec
        self.parent: _Node | None = None
        self.children: list[_Node] = []
        self.cells: dict[FlavorResource, _Cell] = {}
        self.declared: dict[FlavorResource, int] = {}
        self.height = 0
        self.lendable: dict[str, int] | None = None


class QuotaTree:
    """All tenants' quotas and usage; a forest, if there are several roots."""

    def __init__(self, nodes: Iterable[QuotaNode]) -> None:
        """A name twice, an unknown parent, a cycle or a queue with children is a ``ValueError``."""
        self._nodes: dict[str, _Node] = {}
        for spec in nodes:
            if spec.name in self._nodes:
                raise ValueError(f"two tenants are called {spec.name!r}; names must be unique")
            self._nodes[spec.name] = _Node(spec)
        _join(self._nodes)
        parents_first = _parents_first(self._nodes)
        for node in reversed(parents_first):
            _sum_up(node)
        for node in parents_first:
            for fr in node.declared:
                _link(node, fr)

    # -- queries and updates of the hot path -----------------------------------------------------

    def available(self, name: str, fr: FlavorResource) -> int:
        """What can still be used here now, with all that may be borrowed; never below zero."""
        return max(0, _available(self._cell(name, fr)))

    def fits(self, name: str, request: Mapping[FlavorResource, int]) -> bool:
        """Whether all of a request is available here at once."""
        node = self._nodes[name]
        cells = node.cells
        for fr, amount in request.items():
            if amount > 0 and _available(cells.get(fr) or _link(node, fr)) < amount:
                return False
        return True

    def limit(self, name: str, fr: FlavorResource) -> tuple[int, str]:
        """What is available, and the tenant whose quota limits it.

        That is the root whose quota is used up, or the tenant nearest to it whose borrowing limit
        binds first.
        """
        node: _Node | None = self._nodes[name]
        path: list[tuple[_Node, _Cell]] = []
        while node is not None:
            path.append((node, node.cells.get(fr) or _link(node, fr)))
            node = node.parent
        top, cell = path.pop()
        total, limiter = cell.subtree - cell.usage, top.spec.name
        for node, cell in reversed(path):
            free = cell.local - cell.usage
            if cell.cap is not None and cell.cap + min(0, free) < total:
                total, limiter = cell.cap + min(0, free), node.spec.name
            total += max(0, free)
        return max(0, total), limiter

    def add_usage(self, name: str, usage: Mapping[FlavorResource, int]) -> None:
        """Charge a queue; what its own unlendable quota does not cover is charged to the parent."""
        node = self._nodes[name]
        if not node.spec.is_queue:
            raise ValueError(f"{name!r} is not a queue; only queues hold jobs")
        for fr, amount in usage.items():
            cell: _Cell | None = node.cells.get(fr) or _link(node, fr)
            assert cell is not None
            held = cell.usage
            if held <= cell.subtree < held + amount:
                cell.root.borrowers.add(name)
            while cell is not None and amount > 0:
                held = cell.usage
                cell.usage = held + amount
                free = cell.local - held
                if free > 0:
                    amount -= free
                cell = cell.parent

    def remove_usage(self, name: str, usage: Mapping[FlavorResource, int]) -> None:
        """Undo ``add_usage``; removing more than is used is refused."""
        node = self._nodes[name]
        for fr, amount in usage.items():
            if amount > (node.cells.get(fr) or _link(node, fr)).usage:
                raise ValueError(f"{name!r} does not hold {amount} of {fr} and cannot give it back")
        for fr, amount in usage.items():
            cell: _Cell | None = node.cells[fr]
            assert cell is not None
            held = cell.usage
            if held > cell.subtree >= held - amount:
                cell.root.borrowers.discard(name)
            while cell is not None and amount > 0:
                held = cell.usage
                cell.usage = held - amount
                past_local = held - cell.local
                if past_local < amount:
                    amount = past_local
                cell = cell.parent

    # -- amounts of one tenant -------------------------------------------------------------------

    def usage(self, name: str, fr: FlavorResource) -> int:
        """A queue's own usage; above queues, what the children use past their unlendable quota."""
        return self._cell(name, fr).usage

    def nominal(self, name: str, fr: FlavorResource) -> int:
        """The tenant's own nominal quota, without what its children lend."""
        return min(UNLIMITED, self._nodes[name].spec.quotas.get(fr, _NOTHING).nominal)

    def subtree_quota(self, name: str, fr: FlavorResource) -> int:
        """The nominal quota of the tenant and all that its children may lend it."""
        return self._cell(name, fr).subtree

    def local_available(self, name: str, fr: FlavorResource) -> int:
        """What is free here and invisible to the parent."""
        cell = self._cell(name, fr)
        return max(0, cell.local - cell.usage)

    def potential(self, name: str, fr: FlavorResource) -> int:
        """What would be available if nothing ran anywhere: more than this can never start."""
        return self._cell(name, fr).potential

    def is_borrowing(self, name: str, fr: FlavorResource, extra: int = 0) -> bool:
        """Whether usage, with ``extra`` more, is above the subtree's quota."""
        cell = self._cell(name, fr)
        return cell.subtree < cell.usage + extra

    def within_nominal(self, name: str, frs: Iterable[FlavorResource]) -> bool:
        """Whether nothing is borrowed on any of ``frs``: no tenant may reclaim from it."""
        node = self._nodes[name]
        for fr in frs:
            cell = node.cells.get(fr) or _link(node, fr)
            if cell.usage > cell.subtree:
                return False
        return True

    def borrow_level(self, name: str, fr: FlavorResource, amount: int) -> BorrowLevel:
        """The height of the lowest subtree that can hold ``amount`` more within its own quota."""
        node = self._nodes[name]
        cell = node.cells.get(fr) or _link(node, fr)
        while cell.usage + amount > cell.subtree:
            if node.parent is None or cell.parent is None:
                return BorrowLevel(node.height, False)
            amount -= max(0, cell.local - cell.usage)
            node, cell = node.parent, cell.parent
        return BorrowLevel(node.height, node.parent is not None)

    # -- borrowing, for fair shares and reclaiming -----------------------------------------------

    def borrowing_queues(self, name: str, frs: Iterable[FlavorResource]) -> list[str]:
        """The queues of this tenant's whole tree that borrow on any of ``frs``, sorted.

        Maintained by every change of usage, so it costs nothing while no queue borrows.
        """
        queues: set[str] = set()
        for fr in frs:
            queues |= self._cell(name, fr).root.borrowers
        return sorted(queues)

    def others_borrow(self, name: str, frs: Iterable[FlavorResource]) -> bool:
        """Whether any other queue of this tenant's tree borrows on any of ``frs``."""
        for fr in frs:
            borrowers = self._cell(name, fr).root.borrowers
            if len(borrowers) > (name in borrowers):
                return True
        return False

    def borrowed(
        self, name: str, extra: Mapping[FlavorResource, int] | None = None
    ) -> dict[FlavorResource, int]:
        """Positive amounts that a tenant's subtree, plus ``extra``, uses above its quota.

        A tenant that declares nothing has a quota of nothing: all that runs below it is borrowed.
        """
        borrowed: dict[FlavorResource, int] = {}
        cells = self._nodes[name].cells
        for fr, cell in cells.items():
            excess = cell.usage - cell.subtree
            if extra is not None:
                excess += extra.get(fr, 0)
            if excess > 0:
                borrowed[fr] = excess
        for fr, amount in (extra or {}).items():
            if amount > 0 and fr not in cells:
                borrowed[fr] = amount
        return borrowed

    def lendable(self, name: str) -> Mapping[str, int]:
        """By resource, over all flavors of the tree: the most that could be used at this tenant."""
        node = self._nodes[name]
        if node.lendable is None:
            sums: dict[str, int] = {}
            for fr in _root_of(node).declared:
                potential = (node.cells.get(fr) or _link(node, fr)).potential
                sums[fr[1]] = min(UNLIMITED, sums.get(fr[1], 0) + potential)
            node.lendable = sums
        return node.lendable

    # -- the shape -------------------------------------------------------------------------------

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def names(self) -> list[str]:
        """All tenants, sorted."""
        return sorted(self._nodes)

    def weight(self, name: str) -> float:
        """The tenant's weight among its siblings."""
        return self._nodes[name].spec.weight

    def parent(self, name: str) -> str | None:
        """The tenant above, or ``None`` at a root."""
        above = self._nodes[name].parent
        return None if above is None else above.spec.name

    def ancestors(self, name: str) -> Iterator[str]:
        """From the parent up to the root."""
        node = self._nodes[name].parent
        while node is not None:
            yield node.spec.name
            node = node.parent

    def root(self, name: str) -> str:
        """The top of this tenant's tree; a tenant without a parent is its own."""
        return _root_of(self._nodes[name]).spec.name

    def declared(self, name: str) -> Collection[FlavorResource]:
        """The flavor-resources for which the tenant or a tenant below it has a quota, sorted."""
        return self._nodes[name].declared.keys()

    def _cell(self, name: str, fr: FlavorResource) -> _Cell:
        node = self._nodes[name]
        return node.cells.get(fr) or _link(node, fr)


def _available(cell: _Cell) -> int:
    """What is available at a cell; negative if more runs than the quotas allow.

    Unrolled from "own free quota + min(available at the parent, what may still be borrowed)": going up,
    ``reached`` sums the free unlendable quota passed and each borrowing limit bounds the total.
    """
    reached = 0
    bound = UNLIMITED
    parent = cell.parent
    while parent is not None:
        free = cell.local - cell.usage
        cap = cell.cap
        if free > 0:
            reached += free
            if cap is not None and reached + cap < bound:
                bound = reached + cap
        elif cap is not None and reached + cap + free < bound:
            bound = reached + cap + free
        cell = parent
        parent = cell.parent
    total = min(bound, reached + cell.subtree - cell.usage)
    return total if total < _NEARLY_UNLIMITED else UNLIMITED


def _join(nodes: Mapping[str, _Node]) -> None:
    for name in sorted(nodes):
        node = nodes[name]
        above = node.spec.parent
        if above is None:
            continue
        if above not in nodes:
            raise ValueError(f"{above} > {name}: the parent {above!r} is not declared")
        if nodes[above].spec.is_queue:
            raise ValueError(f"{above} > {name}: {above!r} is a queue and cannot have children")
        node.parent = nodes[above]
        nodes[above].children.append(node)


def _parents_first(nodes: Mapping[str, _Node]) -> list[_Node]:
    order = [nodes[name] for name in sorted(nodes) if nodes[name].parent is None]
    for node in order:
        order.extend(node.children)
    if len(order) < len(nodes):
        reached = {node.spec.name for node in order}
        raise ValueError(_cycle_of(nodes[min(set(nodes) - reached)]))
    return order


def _cycle_of(node: _Node) -> str:
    """Describe the cycle that makes a tenant its own ancestor."""
    path = [node.spec.name]
    while node.parent is not None and node.parent.spec.name not in path:
        node = node.parent
        path.append(node.spec.name)
    closing = node.parent.spec.name if node.parent is not None else node.spec.name
    cycle = [*path[path.index(closing) :], closing]
    return f"the tenant tree has a cycle: {' > '.join(reversed(cycle))}"


def _sum_up(node: _Node) -> None:
    """Give a node its subtree's quota and height; its children must have theirs already."""
    totals = {fr: min(UNLIMITED, quota.nominal) for fr, quota in node.spec.quotas.items()}
    for child in node.children:
        for fr, subtree in child.declared.items():
            lent = _lent(child.spec.quotas.get(fr, _NOTHING), subtree)
            totals[fr] = min(UNLIMITED, totals.get(fr, 0) + lent)
        node.height = max(node.height, 1 + child.height)
    node.declared = dict(sorted(totals.items()))


def _link(node: _Node, fr: FlavorResource) -> _Cell:
    """Make the cell of a flavor-resource here and wherever it is missing above."""
    cell = node.cells.get(fr)
    if cell is None:
        above = None if node.parent is None else _link(node.parent, fr)
        quota = node.spec.quotas.get(fr, _NOTHING)
        cell = node.cells[fr] = _Cell(quota, node.declared.get(fr, 0), above)
    return cell


def _root_of(node: _Node) -> _Node:
    while node.parent is not None:
        node = node.parent
    return node

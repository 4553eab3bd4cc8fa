"""The static tree of domains, numbered so that ties break by path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """The smallest domain a task can be assigned to, usually a node.

    ``path`` has one value per level, outermost first; ties break by it.
    """

    id: str
    path: tuple[str, ...]


class TopologyTree:
    """Domains of every level, built once and shared by all placements.

    Domains are numbered level by level, and by path within a level. So the children of a domain,
    and the descendants of neighbouring domains at any depth, are a range of numbers, and comparing
    two domains of one level by number compares their paths.
    """

    def __init__(self, levels: tuple[str, ...], leaves: Sequence[Leaf]) -> None:
        ordered = sorted(leaves, key=lambda leaf: (leaf.path, leaf.id))
        for before, after in pairwise(ordered):
            if before.path == after.path:
                raise ValueError(f"leaves {before.id} and {after.id} share a path")
        self.levels = levels
        self.leaf_ids = tuple(leaf.id for leaf in ordered)
        self._level_starts = [0]
        self._parents: list[int] = []
        self._first_child: list[int] = []
        self._number_domains([leaf.path for leaf in ordered])
        start = self.leaf_start
        self._leaf_by_id = {leaf: start + index for index, leaf in enumerate(self.leaf_ids)}

    def _number_domains(self, paths: list[tuple[str, ...]]) -> None:
        """Number each level's distinct path prefixes and link them to the level above."""
        above: dict[tuple[str, ...], int] = {}
        for depth in range(1, len(self.levels) + 1):
            here: dict[tuple[str, ...], int] = {}
            start = self._level_starts[-1]
            for path in paths:
                prefix = path[:depth]
                if prefix in here:
                    continue
                here[prefix] = number = start + len(here)
                parent = above.get(prefix[:-1], -1)
                self._parents.append(parent)
                if parent >= 0 and len(self._first_child) == parent:
                    self._first_child.append(number)
            self._level_starts.append(start + len(here))
            above = here
        self._first_child.append(self._level_starts[-1])

    @property
    def bottom(self) -> int:
        """The index of the leaves' level."""
        return len(self.levels) - 1

    @property
    def leaf_start(self) -> int:
        """The number of the first leaf."""
        return self._level_starts[self.bottom]

    @property
    def size(self) -> int:
        """How many domains there are at all levels together."""
        return self._level_starts[-1]

    def level_index(self, level: str) -> int | None:
        """The index of a level, outermost first; None if the tree does not have it."""
        return self.levels.index(level) if level in self.levels else None

    def domains(self, level: int) -> range:
        """All domains of a level, by path."""
        return range(self._level_starts[level], self._level_starts[level + 1])

    def children(self, domain: int) -> range:
        """The domains right below; empty for a leaf."""
        if domain >= self.leaf_start:
            return range(0)
        return range(self._first_child[domain], self._first_child[domain + 1])

    def below(self, domains: range) -> range:
        """The children of neighbouring domains, which are themselves neighbours."""
        if not domains or domains.start >= self.leaf_start:
            return range(0)
        return range(self._first_child[domains.start], self._first_child[domains.stop])

    def leaf_number(self, leaf_id: str) -> int | None:
        """A leaf's number; None if the tree does not have it."""
        return self._leaf_by_id.get(leaf_id)

    def leaf_id(self, domain: int) -> str:
        """The leaf behind a number."""
        return self.leaf_ids[domain - self.leaf_start]

    def ancestor(self, leaf: int, level: int) -> int:
        """The domain of a level that contains a leaf."""
        domain = leaf
        for _ in range(self.bottom - level):
            domain = self._parents[domain]
        return domain

    def leaves_under(self, domain: int, level: int) -> range:
        """The leaves of one domain of a level."""
        inside = range(domain, domain + 1)
        for _ in range(self.bottom - level):
            inside = self.below(inside)
        return inside

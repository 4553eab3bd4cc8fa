"""Sums of money and volume by name, in groups: what both tables of the books are made of.

A cell is never changed, only replaced by another. So a copy of a group shares its cells, whoever reads one
elsewhere never sees half a posting, and the garbage collector need not look into hundreds of thousands of
them, as it must into lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import add
from typing import TypeVar

Cell = tuple[int, ...]
"""Micro-dollars, and the volume beside them."""
Cells = dict[str, Cell]
"""By account, or by job."""
Key = TypeVar("Key", bound=tuple[int | str, ...])


def plus(one: Iterable[int], other: Iterable[int]) -> Cell:
    """Two cells of one table added up."""
    return tuple(map(add, one, other))


def add_to(cells: Cells, name: str, cell: Iterable[int]) -> None:
    """So much more under a name."""
    known = cells.get(name)
    cells[name] = tuple(cell) if known is None else plus(known, cell)


def add_all(into: Cells, cells: Cells) -> None:
    """Everything of one group to another. Few names are in both: only they are added up."""
    both = {name: plus(into[name], cells[name]) for name in into.keys() & cells.keys()}
    into.update(cells)
    into.update(both)


def merged(groups: Iterable[tuple[Key, Cells]]) -> list[tuple[Key, Cells]]:
    """In order, with groups of one key added up."""
    found: dict[Key, Cells] = {}
    shared: set[Key] = set()
    for key, cells in groups:
        known = found.get(key)
        if known is None:
            found[key] = cells
            continue
        if key not in shared:
            shared.add(key)
            known = found[key] = dict(known)
        add_all(known, cells)
    return sorted(found.items(), key=_key)


def _key(group: tuple[Key, Cells]) -> Key:
    return group[0]

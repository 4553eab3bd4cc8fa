"""Sums of money and volume by name: the cells of both tables of the books.

A cell is an immutable tuple that is replaced, never changed. Copies of a group share cells, a reader on
another thread never sees half a posting, and the garbage collector need not traverse hundreds of thousands
of lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import add, itemgetter
from typing import TypeVar

Cell = tuple[int, ...]
"""Micro-dollars, then the columns of a volume."""
Cells = dict[str, Cell]
"""By account or by job."""
Key = TypeVar("Key", bound=tuple[int | str, ...])


def plus(one: Iterable[int], other: Iterable[int]) -> Cell:
    """The sum of two cells, column by column."""
    return tuple(map(add, one, other))


def add_to(cells: Cells, name: str, cell: Iterable[int]) -> None:
    """Adds a cell to the one of that name."""
    known = cells.get(name)
    cells[name] = tuple(cell) if known is None else plus(known, cell)


def add_all(into: Cells, cells: Cells) -> None:
    """Adds every cell of a group to another group. Few names are in both; only those are summed."""
    both = {name: plus(into[name], cells[name]) for name in into.keys() & cells.keys()}
    into.update(cells)
    into.update(both)


def merged(groups: Iterable[tuple[Key, Cells]]) -> list[tuple[Key, Cells]]:
    """Groups sorted by key; groups with the same key are summed."""
    by_key: dict[Key, Cells] = {}
    copied: set[Key] = set()
    for key, cells in groups:
        known = by_key.get(key)
        if known is None:
            by_key[key] = cells
            continue
        if key not in copied:
            copied.add(key)
            known = by_key[key] = dict(known)
        add_all(known, cells)
    return sorted(by_key.items(), key=itemgetter(0))

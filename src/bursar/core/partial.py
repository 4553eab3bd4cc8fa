"""Starting smaller: the largest counts of task groups that fit, where fewer tasks will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroupRange:
    """How many tasks a group wants, and with how few it would start."""

    count: int
    min_count: int


def largest_fitting_counts(
    groups: Sequence[TaskGroupRange], fits: Callable[[tuple[int, ...]], bool]
) -> tuple[int, ...] | None:
    """Shrink all groups in proportion to what each can spare, as little as makes ``fits`` true.

    ``fits`` must be true for every smaller job once it is true for one: the search halves the
    range, because each question is a trial of quota, placement and perhaps preemption. ``None``
    when nothing can be spared or when even the smallest job does not fit.
    """
    spare = sum(group.count - group.min_count for group in groups)
    if spare <= 0:
        return None
    low, high = 0, spare
    if not fits(_shrunk(groups, spare, spare)):
        return None
    while low < high:
        middle = (low + high) // 2
        if fits(_shrunk(groups, middle, spare)):
            high = middle
        else:
            low = middle + 1
    return _shrunk(groups, high, spare)


def _shrunk(groups: Sequence[TaskGroupRange], fewer: int, spare: int) -> tuple[int, ...]:
    return tuple(group.count - (group.count - group.min_count) * fewer // spare for group in groups)

"""Which team held which GPU when, on the nodes that a Gantt chart shows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from bursar.model.jobs.attempt import Placement, Task
from bursar.model.units import SECOND_MS
from bursar.simulate.metrics.series import Gantt, GanttBar

NODES_DRAWN = 60
MOST_STAYS = 120_000
MOST_BARS = 9_000
MOST_COLUMNS = 480
FEWEST_COLUMNS = 60


@dataclass(frozen=True, slots=True)
class OccupancySpan:
    """The time that a chart covers."""

    began_ms: int
    ended_ms: int


class GpuOccupancy:
    """Stays of attempts on the charted nodes, four numbers each, in one flat array.

    When there are too many, the shortest are dropped and counted: they would be too thin to see.
    """

    def __init__(self, nodes: Sequence[tuple[str, int]]) -> None:
        self.nodes_in_fleet = len(nodes)
        step = max(1.0, len(nodes) / NODES_DRAWN)
        chosen = [nodes[int(number * step)] for number in range(min(NODES_DRAWN, len(nodes)))]
        self._names = [name for name, _ in chosen]
        self._gpus = [gpus for _, gpus in chosen]
        self._row_of = {name: row for row, name in enumerate(self._names)}
        self._stays = array("Q")
        self._shortest_ms = SECOND_MS
        self._left_out = 0

    def add_node(self, name: str, gpus: int) -> None:
        """A node that joins later is charted if there is space."""
        if name in self._row_of:
            return
        self.nodes_in_fleet += 1
        if len(self._names) < NODES_DRAWN:
            self._row_of[name] = len(self._names)
            self._names.append(name)
            self._gpus.append(gpus)

    def add(self, placement: Placement, team: int, begin_ms: int, end_ms: int) -> None:
        """Adds the stay of an attempt that has ended."""
        for task in placement.all_tasks:
            row = self._row_of.get(task.node)
            mask = 0 if row is None else _mask(task, self._gpus[row])
            if row is not None and mask:
                self._stays.extend((begin_ms, end_ms, mask, team * NODES_DRAWN + row))
        if len(self._stays) > 4 * MOST_STAYS:
            self._thin()

    def _thin(self) -> None:
        stays = list(self._each())
        before = len(stays)
        while len(stays) > MOST_STAYS // 2:
            self._shortest_ms *= 2
            stays = [stay for stay in stays if stay[1] - stay[0] >= self._shortest_ms]
        self._left_out += before - len(stays)
        self._stays = array("Q", chain.from_iterable(stays))

    def _each(self) -> Iterator[tuple[int, int, int, int]]:
        """Begin, end, the GPUs as bits, and team and row in one number."""
        numbers = iter(self._stays)
        return zip(numbers, numbers, numbers, numbers, strict=True)

    # -- drawing ---------------------------------------------------------------------------------

    def chart(self, span: OccupancySpan, teams: Sequence[str]) -> Gantt:
        """The chart, with as many columns as keep the number of bars within a page's limit."""
        columns = MOST_COLUMNS
        bars = self._bars(span, columns)
        while len(bars) > MOST_BARS and columns > FEWEST_COLUMNS:
            columns //= 2
            bars = self._bars(span, columns)
        return Gantt(
            nodes=tuple(self._names),
            gpus=tuple(max(1, gpus) for gpus in self._gpus),
            nodes_in_fleet=self.nodes_in_fleet,
            stays_left_out=self._left_out,
            columns=columns,
            teams=tuple(teams),
            bars=tuple(bars),
        )

    def _bars(self, span: OccupancySpan, columns: int) -> list[GanttBar]:
        column_ms = max(1, -(-(span.ended_ms - span.began_ms) // columns))
        lanes: dict[tuple[int, int], _Lane] = {}
        for begin_ms, end_ms, mask, team_and_row in self._each():
            team, row = divmod(team_and_row, NODES_DRAWN)
            cells = list(_columns(begin_ms - span.began_ms, end_ms - span.began_ms, column_ms))
            for gpu in _bits(mask):
                lane = lanes.get((row, gpu))
                if lane is None:
                    lane = lanes[row, gpu] = _Lane(columns)
                lane.add(cells, team)
        return [bar for (row, gpu), lane in sorted(lanes.items()) for bar in lane.bars(row, gpu)]


class _Lane:
    """One GPU over time: in every column the team that held it longest, and the time."""

    __slots__ = ("_longest_ms", "_team")

    def __init__(self, columns: int) -> None:
        self._longest_ms = [0] * columns
        self._team = [-1] * columns

    def add(self, cells: Iterable[tuple[int, int]], team: int) -> None:
        longest_ms = self._longest_ms
        for column, held_ms in cells:
            if held_ms > longest_ms[column]:
                longest_ms[column] = held_ms
                self._team[column] = team

    def bars(self, row: int, gpu: int) -> Iterator[GanttBar]:
        """One bar for each run of adjacent columns with the same team."""
        begin = 0
        teams = self._team
        for column in range(1, len(teams) + 1):
            if column == len(teams) or teams[column] != teams[begin]:
                if teams[begin] >= 0:
                    yield GanttBar(
                        node=row, gpu=gpu, begin=begin, columns=column - begin, team=teams[begin]
                    )
                begin = column


def _columns(begin_ms: int, end_ms: int, column_ms: int) -> Iterator[tuple[int, int]]:
    """The columns that a stay touches, and its time in each."""
    while begin_ms < end_ms:
        column = begin_ms // column_ms
        until_ms = min(end_ms, (column + 1) * column_ms)
        yield column, until_ms - begin_ms
        begin_ms = until_ms


def _mask(task: Task, gpus_of_node: int) -> int:
    """The GPUs of a task as bits. A node without GPUs has one lane for all its tasks."""
    mask = 0
    for gpu in task.gpus:
        mask |= 1 << gpu
    for use in task.slices:
        mask |= 1 << use.gpu
    for share in task.shares:
        mask |= 1 << share.gpu
    return mask if gpus_of_node else 1


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest

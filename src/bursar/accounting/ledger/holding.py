"""What one holder has of one node: its part, and what has come together since its last posting."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from bursar.accounting.ledger.entry import NOTHING, Volume, made_of
from bursar.accounting.ledger.node_parts import (
    MOST_ALIKE,
    NO_RATES,
    PART,
    PARTS_PER_MILLI,
    Rates,
    TaskPart,
    together,
)
from bursar.model.jobs.attempt import Task
from bursar.model.units import HOUR_MS

COLUMNS = 1 + len(NOTHING)
PLAIN_NUMBERS = 48 * COLUMNS
"""Two days of hours are kept as they come; few attempts have more of them to lose."""
LATELY = 3
"""So many values are of one posting that is not added up yet: its moment, its money, its volume."""
MOST_LATELY = 32 * LATELY


class UnsavedWork:
    """What an attempt has cost since its last checkpoint, hour by hour: lost if it does not end well.

    What comes is put aside and added up later, because most attempts end well and are never asked. What is
    long is kept in a handful of machine words for each hour, because a service that never saves may run for
    a year.
    """

    __slots__ = ("_lately", "_numbers", "from_ms")

    def __init__(self, from_ms: int) -> None:
        self.from_ms = from_ms
        self._lately: list[Any] = []
        self._numbers: list[int] | array[int] | None = None

    def clear(self, from_ms: int) -> None:
        """Everything up to this moment is safe."""
        self.from_ms = from_ms
        self._lately = []
        self._numbers = None

    def add(self, at_ms: int, micro_usd: int, volume: Volume) -> None:
        """So much more, held in the hour of that moment."""
        lately = self._lately
        lately += (at_ms, micro_usd, volume)
        if len(lately) >= MOST_LATELY:
            self._add_up()

    def _add_up(self) -> None:
        """Bring what came lately to the hours it belongs to."""
        lately, self._lately = self._lately, []
        for first in range(0, len(lately), LATELY):
            self._add_to_hour(*lately[first : first + LATELY])

    def _add_to_hour(self, at_ms: int, micro_usd: int, volume: Volume) -> None:
        row = (at_ms // HOUR_MS - self.from_ms // HOUR_MS) * COLUMNS
        numbers = self._numbers
        if numbers is None:
            numbers = self._numbers = []
        if row >= PLAIN_NUMBERS and type(numbers) is list:
            numbers = self._numbers = array("q", numbers)
        if len(numbers) == row:
            numbers.append(micro_usd)
            numbers.extend(volume)
            return
        if len(numbers) < row + COLUMNS:
            numbers.extend([0] * (row + COLUMNS - len(numbers)))
        numbers[row] += micro_usd
        for column, number in enumerate(volume, start=row + 1):
            numbers[column] += number

    def rows(self) -> Iterator[tuple[int, int, Volume]]:
        """Hour, money, volume; in order."""
        self._add_up()
        hour_ms = self.from_ms // HOUR_MS * HOUR_MS
        numbers = self._numbers or ()
        for row in range(0, len(numbers), COLUMNS):
            micro_usd, *volume = numbers[row : row + COLUMNS]
            yield hour_ms, micro_usd, Volume(*volume)
            hour_ms += HOUR_MS


class NodeHolding:
    """A job's tasks on a node, a place kept there, what others run there, or what is idle.

    The ``rates`` hold since ``since_ms``; the sums are what it held since ``from_ms``. What was ``banked``
    of it at a checkpoint cannot be lost any more.
    """

    __slots__ = (
        *("account", "queue", "job_id", "attempt", "unsaved", "tasks", "parts", "full", "rates"),
        *("since_ms", "from_ms", "banked_micro_usd", "banked", "sums"),
    )

    def __init__(self, account: str, tasks: tuple[Task, ...] = (), now_ms: int = 0) -> None:
        self.account = account
        self.tasks = tasks
        self.parts: tuple[TaskPart, ...] = ()
        self.queue = self.job_id = ""
        self.attempt = 0
        self.unsaved: UnsavedWork | None = None
        self.full = 0
        self.rates = NO_RATES
        self.since_ms = self.from_ms = now_ms
        self.banked_micro_usd = 0
        self.banked = NOTHING
        self.sums: tuple[int, ...] = NOTHING

    @property
    def part(self) -> int:
        """Which part of the node it holds."""
        return self.rates[PART]

    def measure(self, parts: tuple[TaskPart, ...]) -> None:
        """It holds this from ``since_ms`` on."""
        self.parts = parts
        self.rates = together(parts)
        self.full = self.rates[PART]

    def turn(self, now_ms: int) -> None:
        """Count what it held so far, before the rates change or are posted."""
        passed_ms = now_ms - self.since_ms
        if passed_ms > 0:
            gpu, cpu, memory, part, unshared = self.rates
            gpu_sum, cpu_sum, memory_sum, part_sum, unshared_sum = self.sums
            self.sums = (
                gpu_sum + gpu * passed_ms,
                cpu_sum + cpu * passed_ms,
                memory_sum + memory * passed_ms,
                part_sum + part * passed_ms,
                unshared_sum + unshared * passed_ms,
            )
        self.since_ms = now_ms

    def gather(self, now_ms: int) -> tuple[int, Volume]:
        """What it held since the last time: billionths of a node times milliseconds, and the volume."""
        if self.sums is NOTHING:
            passed_ms = now_ms - self.since_ms
            self.since_ms = now_ms
            return _of_an_hour(self.rates) if passed_ms == HOUR_MS else _held(self.rates, passed_ms)
        self.turn(now_ms)
        gpu, cpu, memory, part, unshared = self.sums
        self.sums = NOTHING
        node, whole = part // PARTS_PER_MILLI, unshared // PARTS_PER_MILLI
        return part, made_of(Volume, (gpu, cpu, memory, node, whole))

    def bank(self, micro_usd: int, volume: Volume) -> None:
        """A checkpoint was saved: this cannot be lost any more."""
        self.banked_micro_usd += micro_usd
        self.banked = self.banked.plus(volume)

    def with_banked(self, micro_usd: int, volume: Volume) -> tuple[int, Volume]:
        """What there is to post: this and what was banked, which is banked no more."""
        found = micro_usd + self.banked_micro_usd, self.banked.plus(volume)
        self.banked_micro_usd, self.banked = 0, NOTHING
        return found

    def twin(self) -> NodeHolding:
        """The same, for looking ahead: what it adds up to is not noted with its attempt."""
        other = NodeHolding(self.account, self.tasks, self.since_ms)
        for name in NodeHolding.__slots__:
            setattr(other, name, getattr(self, name))
        if self.unsaved is not None:
            other.unsaved = UnsavedWork(self.unsaved.from_ms)
        return other


def _held(rates: Rates, passed_ms: int) -> tuple[int, Volume]:
    """The same rates for some time: billionths of a node times milliseconds, and the volume."""
    gpu, cpu, memory, part, unshared = rates
    part_ms = part * passed_ms
    node = part_ms // PARTS_PER_MILLI
    whole = node if unshared == part else unshared * passed_ms // PARTS_PER_MILLI
    return part_ms, made_of(
        Volume, (gpu * passed_ms, cpu * passed_ms, memory * passed_ms, node, whole)
    )


@lru_cache(maxsize=MOST_ALIKE)
def _of_an_hour(rates: Rates) -> tuple[int, Volume]:
    """Half of all postings are of a whole hour, and most holders hold what others do."""
    return _held(rates, HOUR_MS)

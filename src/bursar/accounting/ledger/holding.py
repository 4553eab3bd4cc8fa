"""What one holder has of one node: its fraction, and its usage since the last posting."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bursar.accounting.ledger.entry import NOTHING, Volume, fast_tuple
from bursar.accounting.ledger.node_fraction import (
    BILLIONTHS_PER_MILLI,
    CACHE_SIZE,
    FRACTION,
    NO_RATES,
    Rates,
    TaskFraction,
    sum_rates,
)
from bursar.model.jobs.attempt import Task
from bursar.model.units import HOUR_MS

COLUMNS = 1 + len(NOTHING)
LIST_LIMIT = 48 * COLUMNS
"""Two days of hours stay in a list, longer ones in an array; few attempts are that long."""
VALUES_PER_POSTING = 3
"""Time, micro-dollars and volume of a pending posting."""
PENDING_LIMIT = 32 * VALUES_PER_POSTING


class UnsavedWork:
    """What an attempt has cost since its last checkpoint, hour by hour: waste if the attempt fails.

    Postings are buffered and summed later, because most attempts succeed and never need the sums. Each hour
    takes six machine words, because a service without checkpoints may run for a year.
    """

    __slots__ = ("_pending", "_numbers", "from_ms")

    def __init__(self, from_ms: int) -> None:
        self.from_ms = from_ms
        self._pending: list[Any] = []
        self._numbers: list[int] | array[int] | None = None

    def clear(self, from_ms: int) -> None:
        """A checkpoint saved everything up to this time."""
        self.from_ms = from_ms
        self._pending = []
        self._numbers = None

    def add(self, at_ms: int, micro_usd: int, volume: Volume) -> None:
        """Adds a posting to the hour that contains ``at_ms``."""
        pending = self._pending
        pending += (at_ms, micro_usd, volume)
        if len(pending) >= PENDING_LIMIT:
            self._add_up()

    def _add_up(self) -> None:
        pending, self._pending = self._pending, []
        for first in range(0, len(pending), VALUES_PER_POSTING):
            self._add_to_hour(*pending[first : first + VALUES_PER_POSTING])

    def _add_to_hour(self, at_ms: int, micro_usd: int, volume: Volume) -> None:
        row = (at_ms // HOUR_MS - self.from_ms // HOUR_MS) * COLUMNS
        numbers = self._numbers
        if numbers is None:
            numbers = self._numbers = []
        if row >= LIST_LIMIT and type(numbers) is list:
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
        """Hour, micro-dollars and volume, in order of time."""
        self._add_up()
        hour_ms = self.from_ms // HOUR_MS * HOUR_MS
        numbers = self._numbers or ()
        for row in range(0, len(numbers), COLUMNS):
            micro_usd, *volume = numbers[row : row + COLUMNS]
            yield hour_ms, micro_usd, Volume(*volume)
            hour_ms += HOUR_MS


@dataclass(slots=True, eq=False)
class NodeHolding:
    """A job's tasks on a node, a reservation there, foreign usage, or the idle rest.

    The ``rates`` apply since ``since_ms``; the ``sums`` count from ``from_ms``. What is ``banked`` was saved
    by a checkpoint and cannot become waste.
    """

    account: str
    tasks: tuple[Task, ...] = ()
    queue: str = ""
    job_id: str = ""
    attempt: int = 0
    unsaved: UnsavedWork | None = None
    since_ms: int = 0
    from_ms: int = 0
    fractions: tuple[TaskFraction, ...] = ()
    unscaled: int = 0
    rates: Rates = NO_RATES
    banked_micro_usd: int = 0
    banked: Volume = NOTHING
    sums: tuple[int, ...] = NOTHING

    @property
    def fraction(self) -> int:
        """The fraction of the node that it holds."""
        return self.rates[FRACTION]

    def measure(self, fractions: tuple[TaskFraction, ...]) -> None:
        """Sets what it holds from ``since_ms`` on."""
        self.fractions = fractions
        self.rates = sum_rates(fractions)
        self.unscaled = self.rates[FRACTION]

    def accumulate(self, now_ms: int) -> None:
        """Adds usage up to now to the sums. Call it before the rates change."""
        passed_ms = now_ms - self.since_ms
        if passed_ms > 0:
            gpu, cpu, memory, fraction, unshared = self.rates
            gpu_sum, cpu_sum, memory_sum, fraction_sum, unshared_sum = self.sums
            self.sums = (
                gpu_sum + gpu * passed_ms,
                cpu_sum + cpu * passed_ms,
                memory_sum + memory * passed_ms,
                fraction_sum + fraction * passed_ms,
                unshared_sum + unshared * passed_ms,
            )
        self.since_ms = now_ms

    def take_total(self, now_ms: int) -> tuple[int, Volume]:
        """Usage since the last call: billionths of a node times milliseconds, and the volume."""
        if self.sums is NOTHING:
            passed_ms = now_ms - self.since_ms
            self.since_ms = now_ms
            return (
                _held_one_hour(self.rates) if passed_ms == HOUR_MS else _held(self.rates, passed_ms)
            )
        self.accumulate(now_ms)
        gpu, cpu, memory, fraction, unshared = self.sums
        self.sums = NOTHING
        node, whole = fraction // BILLIONTHS_PER_MILLI, unshared // BILLIONTHS_PER_MILLI
        return fraction, fast_tuple(Volume, (gpu, cpu, memory, node, whole))

    def bank(self, micro_usd: int, volume: Volume) -> None:
        """Marks an amount as saved by a checkpoint."""
        self.banked_micro_usd += micro_usd
        self.banked = self.banked.plus(volume)

    def with_banked(self, micro_usd: int, volume: Volume) -> tuple[int, Volume]:
        """Adds the banked amount to this one and clears it."""
        total = micro_usd + self.banked_micro_usd, self.banked.plus(volume)
        self.banked_micro_usd, self.banked = 0, NOTHING
        return total

    def copy(self) -> NodeHolding:
        """A copy that does not add to the unsaved work of its attempt."""
        other = NodeHolding(self.account)
        for name in NodeHolding.__slots__:
            setattr(other, name, getattr(self, name))
        if self.unsaved is not None:
            other.unsaved = UnsavedWork(self.unsaved.from_ms)
        return other


def _held(rates: Rates, passed_ms: int) -> tuple[int, Volume]:
    """Usage at constant rates: billionths of a node times milliseconds, and the volume."""
    gpu, cpu, memory, fraction, unshared = rates
    fraction_ms = fraction * passed_ms
    node = fraction_ms // BILLIONTHS_PER_MILLI
    whole = node if unshared == fraction else unshared * passed_ms // BILLIONTHS_PER_MILLI
    return fraction_ms, fast_tuple(
        Volume, (gpu * passed_ms, cpu * passed_ms, memory * passed_ms, node, whole)
    )


@lru_cache(maxsize=CACHE_SIZE)
def _held_one_hour(rates: Rates) -> tuple[int, Volume]:
    """Cached: half of all postings span a whole hour, and many holders have equal rates."""
    return _held(rates, HOUR_MS)

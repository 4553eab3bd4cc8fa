"""What one holder has of one node: its part, and what has come together since its last posting."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from bursar.accounting.entry import NOTHING, Volume, made_of
from bursar.accounting.parts import PARTS_PER_MILLI, TaskPart
from bursar.model.attempt import Task
from bursar.model.units import HOUR_MS

COLUMNS = 1 + len(NOTHING)
PLAIN_NUMBERS = 48 * COLUMNS
"""Two days of hours are kept as they come; few attempts have more of them to lose."""


class Unsaved:
    """What an attempt has cost since its last checkpoint, hour by hour: lost if it does not end well.

    What is long is kept in a handful of machine words for each hour, because a service that never saves
    may run for a year.
    """

    __slots__ = ("_first_hour", "_numbers", "from_ms")

    def __init__(self, from_ms: int) -> None:
        self.clear(from_ms)

    def clear(self, from_ms: int) -> None:
        """Everything up to this moment is safe."""
        self.from_ms = from_ms
        self._first_hour = from_ms // HOUR_MS
        self._numbers: list[int] | array[int] = []

    def add(self, at_ms: int, micro_usd: int, volume: Volume) -> None:
        """So much more, held in the hour of that moment."""
        row = (at_ms // HOUR_MS - self._first_hour) * COLUMNS
        numbers = self._numbers
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
        hour_ms = self._first_hour * HOUR_MS
        for row in range(0, len(self._numbers), COLUMNS):
            micro_usd, *volume = self._numbers[row : row + COLUMNS]
            yield hour_ms, micro_usd, Volume(*volume)
            hour_ms += HOUR_MS


class Holding:
    """A job's tasks on a node, a place kept there, what others run there, or what is idle.

    ``part`` and the amounts beside it hold since ``since_ms``; the sums are what it held since
    ``from_ms``. What was ``banked`` of it at a checkpoint cannot be lost any more.
    """

    __slots__ = (
        *("account", "queue", "job_id", "attempt", "unsaved", "tasks", "parts", "full"),
        *("part", "unshared", "gpu_milli", "cpu_milli", "memory_mib"),
        *("since_ms", "from_ms", "banked_micro_usd", "banked", "sums"),
    )

    def __init__(self, account: str, tasks: tuple[Task, ...] = (), now_ms: int = 0) -> None:
        self.account = account
        self.tasks = tasks
        self.parts: tuple[TaskPart, ...] = ()
        self.queue = self.job_id = ""
        self.attempt = 0
        self.unsaved: Unsaved | None = None
        self.full = self.part = self.unshared = 0
        self.gpu_milli = self.cpu_milli = self.memory_mib = 0
        self.since_ms = self.from_ms = now_ms
        self.banked_micro_usd = 0
        self.banked = NOTHING
        self.sums: tuple[int, ...] = NOTHING

    def measure(self, parts: tuple[TaskPart, ...]) -> None:
        """It holds this from ``since_ms`` on."""
        self.parts = parts
        if len(parts) == 1:
            only = parts[0]
            self.full = self.part = only.part
            self.unshared = only.unshared
            self.gpu_milli, self.cpu_milli = only.gpu_milli, only.cpu_milli
            self.memory_mib = only.memory_mib
            return
        self.full = self.part = sum(one.part for one in parts)
        self.unshared = sum(one.unshared for one in parts)
        self.gpu_milli = sum(one.gpu_milli for one in parts)
        self.cpu_milli = sum(one.cpu_milli for one in parts)
        self.memory_mib = sum(one.memory_mib for one in parts)

    def turn(self, now_ms: int) -> None:
        """Count what it held so far, before the amounts change or are posted."""
        passed_ms = now_ms - self.since_ms
        if passed_ms > 0:
            gpu, cpu, memory, part, unshared = self.sums
            self.sums = (
                gpu + self.gpu_milli * passed_ms,
                cpu + self.cpu_milli * passed_ms,
                memory + self.memory_mib * passed_ms,
                part + self.part * passed_ms,
                unshared + self.unshared * passed_ms,
            )
        self.since_ms = now_ms

    def gather(self, now_ms: int) -> tuple[int, Volume]:
        """What it held since the last time: billionths of a node times milliseconds, and the volume."""
        if self.sums is NOTHING:
            passed_ms = now_ms - self.since_ms
            self.since_ms = now_ms
            gpu, cpu = self.gpu_milli * passed_ms, self.cpu_milli * passed_ms
            memory, part = self.memory_mib * passed_ms, self.part * passed_ms
            unshared = part if self.unshared == self.part else self.unshared * passed_ms
        else:
            self.turn(now_ms)
            gpu, cpu, memory, part, unshared = self.sums
            self.sums = NOTHING
        node = part // PARTS_PER_MILLI
        whole = node if unshared == part else unshared // PARTS_PER_MILLI
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

    def twin(self) -> Holding:
        """The same, for looking ahead: what it adds up to is not noted with its attempt."""
        other = Holding(self.account, self.tasks, self.since_ms)
        for name in Holding.__slots__:
            setattr(other, name, getattr(self, name))
        if self.unsaved is not None:
            other.unsaved = Unsaved(self.unsaved.from_ms)
        return other

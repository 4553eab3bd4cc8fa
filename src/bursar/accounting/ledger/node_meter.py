"""The fold of one node: what it costs, divided among those who hold it, to the micro-dollar.

Each holder has a part of the node; what nobody holds is idle, so the parts are always the whole node. A
posting costs price x part x time. What is less than a micro-dollar of it is carried to the next posting
of the node: so each is right to a micro-dollar, and together they are what the node cost, rounded down
once. Time only goes forward: what is told late happens now.
"""

from __future__ import annotations

from typing import Protocol

from bursar.accounting.ledger.entry import (
    NOTHING,
    AccountKind,
    LedgerEntry,
    Sink,
    account_of,
    made_of,
)
from bursar.accounting.ledger.holding import NodeHolding
from bursar.accounting.ledger.node_parts import (
    PARTS,
    FreeCapacity,
    SliceRule,
    TaskPart,
    kept_of,
    part_of,
    squeezed_part,
)
from bursar.model.errors import BrokenInvariant
from bursar.model.event import ForeignUsageSeen
from bursar.model.fleet.fleet import Pool
from bursar.model.jobs.attempt import Task
from bursar.model.units import HOUR_MS, MILLI

FOREIGN = "(foreign)"
MICRO_USD = PARTS * HOUR_MS
"""One micro-dollar, in micro-dollars an hour x billionths of a node x milliseconds."""


class PostingSink(Protocol):
    """Where the postings of all nodes go, under which number, and when it is that they become known."""

    sequence: int
    now_ms: int
    sink: Sink


class NodeMeter:
    """One node for as long as it exists."""

    __slots__ = (
        *("id", "shape", "price", "rule", "clock_ms", "carry", "capacity", "flavor"),
        *("held", "kept", "idle", "empty_since_ms", "_journal", "_hour_end_ms"),
        *("_gpu_milli", "_gpus_milli", "_cpu_milli", "_memory_mib"),
        *("_taken", "_crowded", "_squeezed"),
    )

    def __init__(self, node_id: str, shape: Pool, rule: SliceRule, journal: PostingSink) -> None:
        self.id = node_id
        self.rule = rule
        self._journal = journal
        self.clock_ms = self.empty_since_ms = self._hour_end_ms = 0
        self.carry = 0
        self.held: dict[str, NodeHolding] = {}
        self.kept: dict[str, NodeHolding] = {}
        self._begin_shape(shape)

    def _begin_shape(self, shape: Pool) -> None:
        self.shape = shape
        self.price = shape.node_micro_usd_per_hour
        self.capacity = account_of(AccountKind.CAPACITY, shape.name)
        self.flavor = shape.flavor
        self.idle = NodeHolding(account_of(AccountKind.IDLE, shape.name), (), self.clock_ms)
        self._gpu_milli = [0] * shape.gpus_per_node
        self._gpus_milli = self._cpu_milli = self._memory_mib = self._taken = self._crowded = 0
        self._squeezed = False
        for holding in self.held.values():
            self._measure(holding)
        for holding in self.kept.values():
            holding.parts = self._parts(holding.tasks)
        self._share_out()

    def begin(self, now_ms: int) -> None:
        """The node is there from now on."""
        self.clock_ms = self.empty_since_ms = self.idle.since_ms = self.idle.from_ms = now_ms
        self._hour_end_ms = now_ms // HOUR_MS * HOUR_MS + HOUR_MS

    @property
    def idle_micro_usd_per_hour(self) -> int:
        """What of it nobody uses, at its price of now."""
        return self.price * self.idle.part // PARTS

    # -- time ------------------------------------------------------------------------------------

    def settle(self, at_ms: int) -> None:
        """Bring the node up to a moment, posting each full hour on the way."""
        while at_ms >= self._hour_end_ms:
            self.clock_ms = self._hour_end_ms
            self.post_all()
            self._hour_end_ms += HOUR_MS
        if at_ms > self.clock_ms:
            self.clock_ms = at_ms

    def post_all(self) -> None:
        """Post what every holder has come to."""
        for holding in self.held.values():
            self._posted(holding)
        for holding in self.kept.values():
            self._posted(holding)
        self._posted(self.idle)

    def _posted(self, holding: NodeHolding) -> None:
        """Post what a holder has come to; what could be lost of it is noted with its attempt."""
        now_ms, from_ms = self.clock_ms, holding.from_ms
        if from_ms >= now_ms:
            return
        holding.from_ms = now_ms
        part_ms, volume = holding.gather(now_ms)
        micro_usd, self.carry = divmod(self.carry + self.price * part_ms, MICRO_USD)
        unsaved = holding.unsaved
        if unsaved is not None:
            unsaved.add(from_ms, micro_usd, volume)
            if holding.banked is not NOTHING:
                micro_usd, volume = holding.with_banked(micro_usd, volume)
        if not micro_usd and not any(volume):
            return
        journal = self._journal
        sequence = journal.sequence
        journal.sequence = sequence + 1
        fields = (
            sequence,
            from_ms,
            now_ms,
            journal.now_ms,
            holding.account,
            self.capacity,
            micro_usd,
            self.shape.name,
            self.flavor,
            self.id,
            holding.queue,
            holding.job_id,
            holding.attempt,
            volume,
        )
        journal.sink(made_of(LedgerEntry, fields))

    # -- changes; the caller settles first -------------------------------------------------------

    def hold(self, key: str, holding: NodeHolding) -> None:
        """A holder comes."""
        if key in self.held:
            raise BrokenInvariant(f"{key} holds node {self.id} twice")
        holding.since_ms = holding.from_ms = self.clock_ms
        self.held[key] = holding
        self._measure(holding)
        self._share_out()

    def leave(self, key: str) -> None:
        """A holder goes; what it has come to is posted."""
        holding = self.held.pop(key)
        self._posted(holding)
        self._forget(holding)
        self._share_out()
        self.empty_since_ms = self.clock_ms

    def keep(self, key: str, holding: NodeHolding) -> None:
        """A place is kept for a job until others have left it."""
        holding.since_ms = holding.from_ms = self.clock_ms
        holding.parts = self._parts(holding.tasks)
        self.kept[key] = holding
        self._share_out()

    def release(self, key: str) -> None:
        """The place is open to all again, or the job has come."""
        self._posted(self.kept.pop(key))
        self._share_out()

    def bank(self, key: str) -> None:
        """What a job has done here up to now is safe."""
        holding = self.held[key]
        part_ms, volume = holding.gather(self.clock_ms)
        micro_usd, self.carry = divmod(self.carry + self.price * part_ms, MICRO_USD)
        holding.bank(micro_usd, volume)

    def see_foreign(self, event: ForeignUsageSeen) -> None:
        """What others hold here from now on. A GPU we have promised ourselves stays with its holder."""
        before = self.held.get(FOREIGN)
        theirs = {gpu for part in before.parts for gpu, _ in part.gpus} if before else set()
        free = [
            gpu
            for gpu in sorted(set(event.gpus))
            if gpu < len(self._gpu_milli) and (gpu in theirs or not self._gpu_milli[gpu])
        ]
        task = Task(
            group=FOREIGN,
            node=self.id,
            count=1,
            gpus=tuple(free),
            cpu_milli=event.cpu_milli,
            memory_mib=event.memory_mib,
        )
        if before is not None and before.tasks == (task,):
            return
        self.settle(event.at_ms)
        if before is not None:
            self.leave(FOREIGN)
        if task.gpus or task.cpu_milli or task.memory_mib:
            account = account_of(AccountKind.FOREIGN, self.shape.name)
            self.hold(FOREIGN, NodeHolding(account, (task,)))

    def reprice(self, shape: Pool) -> None:
        """The same shape at another price from now on; postings never span two."""
        if shape.node_micro_usd_per_hour != self.price:
            self.post_all()
            self.price = shape.node_micro_usd_per_hour
        self.shape = shape

    def reshape(self, shape: Pool) -> None:
        """It is a node of this pool, of this shape and price, from now on."""
        self.post_all()
        self._begin_shape(shape)

    # -- parts -----------------------------------------------------------------------------------

    def _parts(self, tasks: tuple[Task, ...]) -> tuple[TaskPart, ...]:
        if len(tasks) == 1:
            return (part_of(tasks[0], self.shape, self.rule),)
        return tuple([part_of(task, self.shape, self.rule) for task in tasks])

    def _measure(self, holding: NodeHolding) -> None:
        holding.measure(self._parts(holding.tasks))
        held = self._gpu_milli
        for part in holding.parts:
            for gpu, milli in part.gpus:
                before = held[gpu]
                held[gpu] = after = before + milli
                if after > MILLI >= before:
                    self._crowded += 1
        gpus_milli, cpu_milli, memory_mib, _, _ = holding.rates
        self._taken += holding.full
        self._gpus_milli += gpus_milli
        self._cpu_milli += cpu_milli
        self._memory_mib += memory_mib

    def _forget(self, holding: NodeHolding) -> None:
        held = self._gpu_milli
        for part in holding.parts:
            for gpu, milli in part.gpus:
                before = held[gpu]
                held[gpu] = after = before - milli
                if before > MILLI >= after:
                    self._crowded -= 1
        gpus_milli, cpu_milli, memory_mib, _, _ = holding.rates
        self._taken -= holding.full
        self._gpus_milli -= gpus_milli
        self._cpu_milli -= cpu_milli
        self._memory_mib -= memory_mib

    def _share_out(self) -> None:
        """Work out anew what is left and, where holders are in each other's way, everybody's part."""
        taken = self._taken
        if self._crowded or taken > PARTS or self._squeezed:
            taken = self._squeeze()
        left = PARTS - taken
        shape, idle = self.shape, self.idle
        cpu_milli = shape.cpu_milli - self._cpu_milli
        memory_mib = shape.memory_mib - self._memory_mib
        if cpu_milli < 0 or memory_mib < 0:
            cpu_milli, memory_mib = max(0, cpu_milli), max(0, memory_mib)
        idle.turn(self.clock_ms)
        if self.kept or self._crowded:
            gpus = tuple([MILLI - milli if milli < MILLI else 0 for milli in self._gpu_milli])
            free = FreeCapacity(gpus, cpu_milli, memory_mib)
            for _, holding in sorted(self.kept.items()):
                left, free = self._keep_of(holding, left, free)
            gpus_milli = sum(free.gpus)
            cpu_milli, memory_mib = free.cpu_milli, free.memory_mib
        else:
            gpus_milli = shape.gpus_per_node * MILLI - self._gpus_milli
        idle.rates = (gpus_milli, cpu_milli, memory_mib, left, left)

    def _squeeze(self) -> int:
        """Scale down who shares a GPU that is given out more than once, then all if they exceed the node."""
        held = list(self.held.values())
        gpus = self.shape.gpus_per_node
        parts = [
            sum(squeezed_part(task, self._gpu_milli, gpus) for task in holding.parts)
            if self._crowded
            else holding.full
            for holding in held
        ]
        total = sum(parts)
        if total > PARTS:
            parts = [part * PARTS // total for part in parts]
        for holding, part in zip(held, parts, strict=True):
            if part != holding.part:
                holding.turn(self.clock_ms)
                gpus_milli, cpu_milli, memory_mib, _, unshared = holding.rates
                holding.rates = (gpus_milli, cpu_milli, memory_mib, part, unshared)
        self._squeezed = bool(self._crowded) or total > PARTS
        return sum(parts)

    def _keep_of(
        self, holding: NodeHolding, left: int, free: FreeCapacity
    ) -> tuple[int, FreeCapacity]:
        """What a kept place has of what is free, and what is free beside it."""
        holding.turn(self.clock_ms)
        parts = []
        for task in holding.parts:
            kept = kept_of(task, free, self.shape)
            gpus = list(free.gpus)
            for gpu, milli in kept.gpus:
                gpus[gpu] = max(0, gpus[gpu] - milli)
            _, cpu_milli, memory_mib, _, _ = kept.rates
            free = FreeCapacity(
                tuple(gpus), free.cpu_milli - cpu_milli, free.memory_mib - memory_mib
            )
            parts.append(kept)
        asked = holding.parts
        holding.measure(tuple(parts))
        holding.parts = asked
        gpus_milli, cpu_milli, memory_mib, full, _ = holding.rates
        part = min(left, full)
        holding.rates = (gpus_milli, cpu_milli, memory_mib, part, part)
        return left - part, free

    def twin(self, journal: PostingSink) -> NodeMeter:
        """The same, for looking ahead without changing anything."""
        other = NodeMeter(self.id, self.shape, self.rule, journal)
        other.begin(self.clock_ms)
        other.price, other.carry = self.price, self.carry
        other.held = {key: holding.twin() for key, holding in self.held.items()}
        other.kept = {key: holding.twin() for key, holding in self.kept.items()}
        other.idle = self.idle.twin()
        return other

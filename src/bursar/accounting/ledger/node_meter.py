"""Divides the cost of one node among its holders, to the micro-dollar.

Each holder has a fraction of the node and the idle account has the rest, so fractions always sum to one.
A posting costs price x fraction x time. The remainder below a micro-dollar is carried to the next posting
of the node: each posting is right to a micro-dollar, and their sum is the node's cost, rounded down once.
A node's time only moves forward: a late event is applied at the node's current time.
"""

from __future__ import annotations

from typing import Protocol

from bursar.accounting.ledger.entry import (
    NOTHING,
    AccountKind,
    LedgerEntry,
    Sink,
    account_of,
    fast_tuple,
)
from bursar.accounting.ledger.holding import NodeHolding
from bursar.accounting.ledger.node_fraction import (
    WHOLE_NODE,
    FreeCapacity,
    SliceRule,
    TaskFraction,
    fraction_of_node,
    reservable_fraction,
    scaled_fraction,
)
from bursar.model.errors import BrokenInvariant
from bursar.model.event import ForeignUsageSeen
from bursar.model.fleet.fleet import Pool
from bursar.model.jobs.attempt import Task
from bursar.model.units import HOUR_MS, MILLI

FOREIGN = "(foreign)"
MICRO_USD = WHOLE_NODE * HOUR_MS
"""One micro-dollar, in micro-dollars an hour x billionths of a node x milliseconds."""


class PostingSink(Protocol):
    """Receives the postings of all nodes; holds the next sequence number and the time of posting."""

    sequence: int
    now_ms: int
    sink: Sink


class NodeMeter:
    """The holders of one node, from its arrival to its removal."""

    __slots__ = (
        *("id", "shape", "price", "rule", "clock_ms", "carry", "capacity", "flavor"),
        *("held", "reserved", "idle", "empty_since_ms", "_meter", "_hour_end_ms"),
        *("_gpu_milli", "_gpus_milli", "_cpu_milli", "_memory_mib"),
        *("_held_fraction", "_oversubscribed_gpus", "_is_scaled"),
    )

    def __init__(self, node_id: str, shape: Pool, rule: SliceRule, meter: PostingSink) -> None:
        self.id = node_id
        self.rule = rule
        self._meter = meter
        self.clock_ms = self.empty_since_ms = self._hour_end_ms = 0
        self.carry = 0
        self.held: dict[str, NodeHolding] = {}
        self.reserved: dict[str, NodeHolding] = {}
        self._set_shape(shape)

    def _set_shape(self, shape: Pool) -> None:
        self.shape = shape
        self.price = shape.node_micro_usd_per_hour
        self.capacity = account_of(AccountKind.CAPACITY, shape.name)
        self.flavor = shape.flavor
        account = account_of(AccountKind.IDLE, shape.name)
        self.idle = NodeHolding(account, since_ms=self.clock_ms, from_ms=self.clock_ms)
        self._gpu_milli = [0] * shape.gpus_per_node
        self._gpus_milli = self._cpu_milli = self._memory_mib = self._held_fraction = (
            self._oversubscribed_gpus
        ) = 0
        self._is_scaled = False
        for holding in self.held.values():
            self._add_holding(holding)
        for holding in self.reserved.values():
            holding.fractions = self._task_fractions(holding.tasks)
        self._update_fractions()

    def begin(self, now_ms: int) -> None:
        """Starts the node's clock."""
        self.clock_ms = self.empty_since_ms = self.idle.since_ms = self.idle.from_ms = now_ms
        self._hour_end_ms = now_ms // HOUR_MS * HOUR_MS + HOUR_MS

    @property
    def idle_micro_usd_per_hour(self) -> int:
        """Cost per hour of the idle fraction at the current price."""
        return self.price * self.idle.fraction // WHOLE_NODE

    # -- time ------------------------------------------------------------------------------------

    def advance_to(self, at_ms: int) -> None:
        """Advances the node's clock and posts every full hour on the way."""
        while at_ms >= self._hour_end_ms:
            self.clock_ms = self._hour_end_ms
            self.post_all()
            self._hour_end_ms += HOUR_MS
        if at_ms > self.clock_ms:
            self.clock_ms = at_ms

    def post_all(self) -> None:
        """Posts the accumulated cost of every holder."""
        for holding in self.held.values():
            self._post(holding)
        for holding in self.reserved.values():
            self._post(holding)
        self._post(self.idle)

    def _post(self, holding: NodeHolding) -> None:
        """Posts the accumulated cost of a holder and adds it to its attempt's unsaved work."""
        now_ms, from_ms = self.clock_ms, holding.from_ms
        if from_ms >= now_ms:
            return
        holding.from_ms = now_ms
        fraction_ms, volume = holding.take_total(now_ms)
        micro_usd, self.carry = divmod(self.carry + self.price * fraction_ms, MICRO_USD)
        unsaved = holding.unsaved
        if unsaved is not None:
            unsaved.add(from_ms, micro_usd, volume)
            if holding.banked is not NOTHING:
                micro_usd, volume = holding.with_banked(micro_usd, volume)
        if not micro_usd and not any(volume):
            return
        meter = self._meter
        sequence = meter.sequence
        meter.sequence = sequence + 1
        fields = (
            sequence,
            from_ms,
            now_ms,
            meter.now_ms,
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
        meter.sink(fast_tuple(LedgerEntry, fields))

    # -- changes: the caller calls advance_to first ----------------------------------------------

    def hold(self, key: str, holding: NodeHolding) -> None:
        """Adds a holder."""
        if key in self.held:
            raise BrokenInvariant(f"{key} holds node {self.id} twice")
        holding.since_ms = holding.from_ms = self.clock_ms
        self.held[key] = holding
        self._add_holding(holding)
        self._update_fractions()

    def leave(self, key: str) -> None:
        """Posts what a holder has accumulated and removes it."""
        holding = self.held.pop(key)
        self._post(holding)
        self._remove_holding(holding)
        self._update_fractions()
        self.empty_since_ms = self.clock_ms

    def reserve(self, key: str, holding: NodeHolding) -> None:
        """Reserves free capacity for a job that waits for other holders to leave."""
        holding.since_ms = holding.from_ms = self.clock_ms
        holding.fractions = self._task_fractions(holding.tasks)
        self.reserved[key] = holding
        self._update_fractions()

    def release(self, key: str) -> None:
        """Ends a reservation."""
        self._post(self.reserved.pop(key))
        self._update_fractions()

    def bank(self, key: str) -> None:
        """Marks a job's cost so far as saved by a checkpoint."""
        holding = self.held[key]
        fraction_ms, volume = holding.take_total(self.clock_ms)
        micro_usd, self.carry = divmod(self.carry + self.price * fraction_ms, MICRO_USD)
        holding.bank(micro_usd, volume)

    def set_foreign_usage(self, event: ForeignUsageSeen) -> None:
        """Replaces the foreign usage of the node. A GPU that one of our jobs holds stays with that job."""
        before = self.held.get(FOREIGN)
        foreign = {gpu for task in before.fractions for gpu, _ in task.gpus} if before else set()
        free = [
            gpu
            for gpu in sorted(set(event.gpus))
            if gpu < len(self._gpu_milli) and (gpu in foreign or not self._gpu_milli[gpu])
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
        self.advance_to(event.at_ms)
        if before is not None:
            self.leave(FOREIGN)
        if task.gpus or task.cpu_milli or task.memory_mib:
            account = account_of(AccountKind.FOREIGN, self.shape.name)
            self.hold(FOREIGN, NodeHolding(account, (task,)))

    def reprice(self, shape: Pool) -> None:
        """Changes the price. Everything before is posted first, so no posting spans two prices."""
        if shape.node_micro_usd_per_hour != self.price:
            self.post_all()
            self.price = shape.node_micro_usd_per_hour
        self.shape = shape

    def reshape(self, shape: Pool) -> None:
        """Moves the node to another pool, shape and price."""
        self.post_all()
        self._set_shape(shape)

    # -- fractions of the node -------------------------------------------------------------------

    def _task_fractions(self, tasks: tuple[Task, ...]) -> tuple[TaskFraction, ...]:
        if len(tasks) == 1:
            return (fraction_of_node(tasks[0], self.shape, self.rule),)
        return tuple([fraction_of_node(task, self.shape, self.rule) for task in tasks])

    def _add_holding(self, holding: NodeHolding) -> None:
        holding.measure(self._task_fractions(holding.tasks))
        held = self._gpu_milli
        for fraction in holding.fractions:
            for gpu, milli in fraction.gpus:
                before = held[gpu]
                held[gpu] = after = before + milli
                if after > MILLI >= before:
                    self._oversubscribed_gpus += 1
        gpus_milli, cpu_milli, memory_mib, _, _ = holding.rates
        self._held_fraction += holding.unscaled
        self._gpus_milli += gpus_milli
        self._cpu_milli += cpu_milli
        self._memory_mib += memory_mib

    def _remove_holding(self, holding: NodeHolding) -> None:
        held = self._gpu_milli
        for fraction in holding.fractions:
            for gpu, milli in fraction.gpus:
                before = held[gpu]
                held[gpu] = after = before - milli
                if before > MILLI >= after:
                    self._oversubscribed_gpus -= 1
        gpus_milli, cpu_milli, memory_mib, _, _ = holding.rates
        self._held_fraction -= holding.unscaled
        self._gpus_milli -= gpus_milli
        self._cpu_milli -= cpu_milli
        self._memory_mib -= memory_mib

    def _update_fractions(self) -> None:
        """Recomputes the idle fraction and, if holders exceed a GPU or the node, their fractions."""
        held = self._held_fraction
        if self._oversubscribed_gpus or held > WHOLE_NODE or self._is_scaled:
            held = self._scale_down()
        idle_fraction = WHOLE_NODE - held
        shape, idle = self.shape, self.idle
        cpu_milli = shape.cpu_milli - self._cpu_milli
        memory_mib = shape.memory_mib - self._memory_mib
        if cpu_milli < 0 or memory_mib < 0:
            cpu_milli, memory_mib = max(0, cpu_milli), max(0, memory_mib)
        idle.accumulate(self.clock_ms)
        if self.reserved or self._oversubscribed_gpus:
            gpus = tuple([MILLI - milli if milli < MILLI else 0 for milli in self._gpu_milli])
            free = FreeCapacity(gpus, cpu_milli, memory_mib)
            for _, holding in sorted(self.reserved.items()):
                idle_fraction, free = self._reserve_free(holding, idle_fraction, free)
            gpus_milli = sum(free.gpus)
            cpu_milli, memory_mib = free.cpu_milli, free.memory_mib
        else:
            gpus_milli = shape.gpus_per_node * MILLI - self._gpus_milli
        idle.rates = (gpus_milli, cpu_milli, memory_mib, idle_fraction, idle_fraction)

    def _scale_down(self) -> int:
        """Scales down holders of oversubscribed GPUs, then all holders if they exceed the node."""
        held = list(self.held.values())
        gpus = self.shape.gpus_per_node
        fractions = [
            sum(scaled_fraction(task, self._gpu_milli, gpus) for task in holding.fractions)
            if self._oversubscribed_gpus
            else holding.unscaled
            for holding in held
        ]
        total = sum(fractions)
        if total > WHOLE_NODE:
            fractions = [fraction * WHOLE_NODE // total for fraction in fractions]
        for holding, fraction in zip(held, fractions, strict=True):
            if fraction != holding.fraction:
                holding.accumulate(self.clock_ms)
                gpus_milli, cpu_milli, memory_mib, _, unshared = holding.rates
                holding.rates = (gpus_milli, cpu_milli, memory_mib, fraction, unshared)
        self._is_scaled = bool(self._oversubscribed_gpus) or total > WHOLE_NODE
        return sum(fractions)

    def _reserve_free(
        self, holding: NodeHolding, idle_fraction: int, free: FreeCapacity
    ) -> tuple[int, FreeCapacity]:
        """Gives a reservation its share of the free capacity; returns what stays idle."""
        holding.accumulate(self.clock_ms)
        fractions = []
        for task in holding.fractions:
            reserved = reservable_fraction(task, free, self.shape)
            gpus = list(free.gpus)
            for gpu, milli in reserved.gpus:
                gpus[gpu] = max(0, gpus[gpu] - milli)
            _, cpu_milli, memory_mib, _, _ = reserved.rates
            free = FreeCapacity(
                tuple(gpus), free.cpu_milli - cpu_milli, free.memory_mib - memory_mib
            )
            fractions.append(reserved)
        wanted = holding.fractions
        holding.measure(tuple(fractions))
        holding.fractions = wanted
        gpus_milli, cpu_milli, memory_mib, unscaled, _ = holding.rates
        fraction = min(idle_fraction, unscaled)
        holding.rates = (gpus_milli, cpu_milli, memory_mib, fraction, fraction)
        return idle_fraction - fraction, free

    def copy(self, meter: PostingSink) -> NodeMeter:
        """A copy that can be advanced without changing this node."""
        other = NodeMeter(self.id, self.shape, self.rule, meter)
        other.begin(self.clock_ms)
        other.price, other.carry = self.price, self.carry
        other.held = {key: holding.copy() for key, holding in self.held.items()}
        other.reserved = {key: holding.copy() for key, holding in self.reserved.items()}
        other.idle = self.idle.copy()
        return other

"""The fold of the event log into postings.

``apply`` each event in the order of the log; entries come out through the sink. Events may be told a
little late: each node's time only goes forward, so nothing is counted twice or backwards. An hour is
posted on every node once an event lies ten minutes behind its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from bursar.accounting.ledger.entry import AccountKind, LedgerEntry, Sink, account_of
from bursar.accounting.ledger.holding import NodeHolding
from bursar.accounting.ledger.node_meter import NodeMeter
from bursar.accounting.ledger.node_parts import SliceRule
from bursar.accounting.ledger.node_set import nodes_after
from bursar.accounting.ledger.open_job import LiveAttempt, OpenJob
from bursar.accounting.ledger.price_history import PriceHistoryByPool
from bursar.model import event as ev
from bursar.model.errors import BrokenInvariant
from bursar.model.fleet.fleet import Fleet, Node, Pool
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.lifecycle import fence
from bursar.model.units import HOUR_MS, MINUTE_MS

LATE_MS = 10 * MINUTE_MS
"""So long after an hour's end nodes on which nothing happens are posted too: engines tell late."""


class Meter:
    """All nodes and all jobs that are not over. ``sequence`` is the number of the next entry."""

    def __init__(self, sink: Sink, rule: SliceRule = SliceRule.MAX) -> None:
        self.sink = sink
        self.rule = rule
        self.sequence = 1
        self.now_ms = 0
        self.due_ms = 0
        self.fleet: Fleet | None = None
        self.pools: dict[str, Pool] = {}
        self.nodes: dict[str, NodeMeter] = {}
        self.jobs: dict[str, OpenJob] = {}
        self.gone: dict[str, int] = {}
        """Nodes that went lately, and until when they were paid for: one may be told late to be back."""
        self.over: Callable[[OpenJob], None] = _nobody_asks
        """Told of each job to which nothing can happen any more, when its last entry is posted."""
        self.prices = PriceHistoryByPool()
        self._apply = _appliers(self)

    def apply(self, event: ev.LoggedEvent) -> None:
        """Bring the books up to an event."""
        at_ms = event.at_ms
        if at_ms > self.now_ms:
            self.now_ms = at_ms
            if at_ms >= self.due_ms:
                self._close_hours(at_ms)
        self._apply[type(event)](event)

    def hear_bills(self, rerate: Callable[[ev.BillReceived], object]) -> None:
        """Whoever has the books is told of real bills, which change nothing that is metered."""
        self._apply[ev.BillReceived] = rerate

    def apply_all(self, events: Iterable[ev.LoggedEvent]) -> None:
        for event in events:
            self.apply(event)

    def close(self, now_ms: int) -> None:
        """The log ends here: post everything up to now. Mid-hour, a later fold would post otherwise."""
        self.now_ms = max(self.now_ms, now_ms)
        for node in self.nodes.values():
            node.settle(now_ms)
            node.post_all()

    def accrued(self, now_ms: int) -> list[LedgerEntry]:
        """What ``close`` would post, without posting it."""
        found: list[LedgerEntry] = []
        ahead = Meter(found.append, self.rule)
        ahead.sequence, ahead.now_ms = self.sequence, max(self.now_ms, now_ms)
        for node in self.nodes.values():
            twin = node.twin(ahead)
            twin.settle(now_ms)
            twin.post_all()
        return found

    def _close_hours(self, at_ms: int) -> None:
        hour_ms = (at_ms - LATE_MS) // HOUR_MS * HOUR_MS
        for node in self.nodes.values():
            node.settle(hour_ms)
        self.gone = {name: ms for name, ms in self.gone.items() if ms > hour_ms}
        self.due_ms = hour_ms + HOUR_MS + LATE_MS

    # -- jobs ------------------------------------------------------------------------------------

    def submitted(self, event: ev.JobSubmitted) -> None:
        self.jobs[event.job_id] = OpenJob(event.job_id, event.spec.queue, event.spec.retries)

    def cancelled(self, event: ev.JobCancelled) -> None:
        job = self.jobs.get(event.job_id)
        if job is None:
            return
        job.is_cancelled = True
        if job.live is None:
            self._drop_claim(job, event.at_ms)
            self._forget(job)

    def assigned(self, event: ev.AttemptAssigned) -> None:
        at_ms, attempt, placement = event.at_ms, event.attempt, event.placement
        job = self.jobs.get(event.job_id)
        if job is None or job.live is not None or attempt != job.attempt + 1:
            raise BrokenInvariant(f"job {event.job_id} cannot be assigned attempt {attempt}")
        if job.claimed:
            self._drop_claim(job, at_ms)
        job.attempt = attempt
        job.live = self._take_room(job, placement, at_ms)
        if placement.anchors is not None:
            job.live.anchors = self._take_room(job, placement.anchors, at_ms)

    def _take_room(self, job: OpenJob, placement: Placement, at_ms: int) -> LiveAttempt:
        """One part of an attempt holds its nodes: what it loses is lost at the price of its pool."""
        attempt = job.attempt
        live = LiveAttempt(attempt, placement.pool, placement.flavor, at_ms)
        for node_id, tasks in _by_node(placement.tasks):
            node = self._node(node_id, job.id)
            holding = NodeHolding(job.usage, tasks)
            holding.queue, holding.job_id, holding.attempt = job.queue, job.id, attempt
            holding.unsaved = live.unsaved
            node.settle(at_ms)
            node.hold(job.id, holding)
            live.nodes.append(node)
        return live

    def saved(self, event: ev.CheckpointSaved) -> None:
        job = fence(self.jobs.get(event.job_id), event.attempt)
        live = None if job is None else job.live
        while live is not None:
            for node in live.nodes:
                node.settle(event.at_ms)
                node.bank(event.job_id)
            live.unsaved.clear(max(event.at_ms, live.unsaved.from_ms))
            live = live.anchors

    def expired(self, event: ev.AttemptExpired) -> None:
        job = fence(self.jobs.get(event.job_id), event.attempt)
        if job is not None:
            job.is_expired = True

    def ended(self, event: ev.AttemptEnded) -> None:
        job = fence(self.jobs.get(event.job_id), event.attempt)
        if job is None:
            return
        succeeded = type(event) is ev.AttemptSucceeded
        self._end(job, event.at_ms, lost=not succeeded)
        is_over = succeeded or job.was_stopped_on_purpose
        if type(event) is ev.AttemptFailed:
            job.failures += 1
            is_over = is_over or job.failures > job.retries
        if is_over:
            self._forget(job)

    def _forget(self, job: OpenJob) -> None:
        del self.jobs[job.id]
        self.over(job)

    def _end(self, job: OpenJob, at_ms: int, *, lost: bool) -> None:
        """Nothing is held any more; what was not saved is waste unless the job ended as it was meant to."""
        live = job.live
        job.live = None
        while live is not None:
            for node in live.nodes:
                node.settle(at_ms)
                node.leave(job.id)
            if lost and not job.was_stopped_on_purpose:
                self._reclassify(job, live)
            live = live.anchors

    def _reclassify(self, job: OpenJob, live: LiveAttempt) -> None:
        """Usage becomes waste, hour by hour, by entries of their own."""
        node = live.nodes[0].id if len(live.nodes) == 1 else ""
        end_ms = max(one.clock_ms for one in live.nodes)
        for hour_ms, micro_usd, volume in live.unsaved.rows():
            if not micro_usd and not any(volume):
                continue
            self.sink(
                LedgerEntry(
                    sequence=self.sequence,
                    from_ms=max(hour_ms, live.unsaved.from_ms),
                    to_ms=min(hour_ms + HOUR_MS, end_ms),
                    posted_ms=self.now_ms,
                    debit=job.waste,
                    credit=job.usage,
                    micro_usd=micro_usd,
                    pool=live.pool,
                    flavor=live.flavor,
                    node=node,
                    queue=job.queue,
                    job_id=job.id,
                    attempt=live.attempt,
                    volume=volume,
                )
            )
            self.sequence += 1

    # -- places that are kept --------------------------------------------------------------------

    def claimed(self, event: ev.PlacementClaimed) -> None:
        job = self.jobs.get(event.job_id)
        if job is None or job.live is not None:
            raise BrokenInvariant(f"job {event.job_id} cannot have room kept for it")
        self._drop_claim(job, event.at_ms)
        nodes = []
        for node_id, tasks in _by_node(event.placement.all_tasks):
            node = self._node(node_id, job.id)
            holding = NodeHolding(account_of(AccountKind.RESERVED, node.shape.name), tasks)
            holding.queue, holding.job_id = job.queue, job.id
            node.settle(event.at_ms)
            node.keep(job.id, holding)
            nodes.append(node)
        job.claimed = tuple(nodes)

    def released(self, event: ev.ClaimReleased) -> None:
        job = self.jobs.get(event.job_id)
        if job is not None:
            self._drop_claim(job, event.at_ms)

    def _drop_claim(self, job: OpenJob, at_ms: int) -> None:
        for node in job.claimed:
            node.settle(at_ms)
            node.release(job.id)
        job.claimed = ()

    # -- the fleet: a late report about a node that is gone changes nothing ----------------------

    def declared(self, event: ev.FleetDeclared) -> None:
        there = [Node(id=one.id, pool=one.shape.name) for one in self.nodes.values()]
        homes = nodes_after(self.fleet, event.fleet, there)
        for name in sorted(self.nodes.keys() - homes.keys()):
            self._remove(self.nodes[name], event.at_ms)
        self.fleet = event.fleet
        self.pools = {pool.name: pool for pool in event.fleet.pools}
        for declared in event.fleet.pools:
            self.prices.note(declared, event.at_ms)
        for name, pool in homes.items():
            node, shape = self.nodes.get(name), self.pools[pool]
            if node is None:
                self._begin(name, shape, event.at_ms)
            elif shape != node.shape:
                node.settle(event.at_ms)
                node.reshape(shape)

    def node_added(self, event: ev.NodeAdded) -> None:
        if event.node.id in self.nodes:
            raise BrokenInvariant(f"node {event.node.id} joined twice")
        self._begin(event.node.id, self.pools[event.node.pool], event.at_ms)

    def node_lost(self, event: ev.NodeLost) -> None:
        node = self.nodes.get(event.node)
        if node is not None:
            self._remove(node, event.at_ms)

    def foreign_seen(self, event: ev.ForeignUsageSeen) -> None:
        node = self.nodes.get(event.node)
        if node is not None:
            node.see_foreign(event)

    def price_changed(self, event: ev.PriceChanged) -> None:
        price = event.node_micro_usd_per_hour
        shape = replace(self.pools[event.pool], node_micro_usd_per_hour=price)
        self.pools[event.pool] = shape
        self.prices.note(shape, event.at_ms)
        for node in self.nodes.values():
            if node.shape.name == event.pool:
                node.settle(event.at_ms)
                node.reprice(shape)

    def _begin(self, name: str, shape: Pool, at_ms: int) -> None:
        node = NodeMeter(name, shape, self.rule, self)
        node.begin(max(at_ms, self.gone.pop(name, at_ms)))
        self.nodes[name] = node

    def _remove(self, node: NodeMeter, at_ms: int) -> None:
        """The node is gone, the attempts on it are lost, and nothing is kept there any more."""
        for job_id in sorted(node.kept):
            self._drop_claim(self.jobs[job_id], at_ms)
        for job_id in sorted(node.held.keys() & self.jobs.keys()):
            job = self.jobs[job_id]
            self._end(job, at_ms, lost=True)
            if job.was_stopped_on_purpose:
                self._forget(job)
        node.settle(at_ms)
        node.post_all()
        self.gone[node.id] = node.clock_ms
        del self.nodes[node.id]

    def _node(self, node_id: str, job_id: str) -> NodeMeter:
        node = self.nodes.get(node_id)
        if node is None:
            raise BrokenInvariant(f"job {job_id} is placed on node {node_id}, which does not exist")
        return node


def _by_node(tasks: tuple[Task, ...]) -> list[tuple[str, tuple[Task, ...]]]:
    """The tasks of a placement, node by node."""
    if len(tasks) == 1:
        return [(tasks[0].node, tasks)]
    found: dict[str, list[Task]] = {}
    for task in tasks:
        found.setdefault(task.node, []).append(task)
    return [(node, tuple(theirs)) for node, theirs in found.items()]


def _nobody_asks(_job: OpenJob) -> None:
    """Until somebody wants to know."""


def _nothing_changes(event: ev.LoggedEvent) -> None:
    """What it says is of no account: nobody comes to hold more or less by it, and no price changes."""


def _appliers(meter: Meter) -> dict[type, Callable[..., object]]:
    """Which method brings in which event."""
    return {
        ev.JobSubmitted: meter.submitted,
        ev.JobCancelled: meter.cancelled,
        ev.AttemptAssigned: meter.assigned,
        ev.AttemptStarted: _nothing_changes,
        ev.CheckpointSaved: meter.saved,
        ev.AttemptResumed: _nothing_changes,
        ev.AttemptStopping: _nothing_changes,
        ev.AttemptExpired: meter.expired,
        ev.AttemptPreempted: meter.ended,
        ev.AttemptSucceeded: meter.ended,
        ev.AttemptFailed: meter.ended,
        ev.PlacementClaimed: meter.claimed,
        ev.ClaimReleased: meter.released,
        ev.GpuPartitioned: _nothing_changes,
        ev.NodeAdded: meter.node_added,
        ev.NodeDrained: _nothing_changes,
        ev.NodeRestored: _nothing_changes,
        ev.NodeLost: meter.node_lost,
        ev.SpotNotice: _nothing_changes,
        ev.ForeignUsageSeen: meter.foreign_seen,
        ev.TenantChanged: _nothing_changes,
        ev.PriceChanged: meter.price_changed,
        ev.BudgetLevelChanged: _nothing_changes,
        ev.FleetDeclared: meter.declared,
        ev.BillReceived: _nothing_changes,
    }

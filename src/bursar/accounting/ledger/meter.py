"""Turns the event log into postings.

``apply`` takes each event in log order and hands entries to the sink. Events may arrive a little late: each
node's time only moves forward, so nothing is counted twice. An hour is posted on every node once an event is
ten minutes past its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bursar.accounting.ledger.entry import AccountKind, LedgerEntry, Sink, account_of
from bursar.accounting.ledger.holding import NodeHolding, UnsavedWork
from bursar.accounting.ledger.node_fraction import SliceRule
from bursar.accounting.ledger.node_meter import NodeMeter
from bursar.accounting.ledger.open_job import LiveAttempt, OpenJob
from bursar.accounting.ledger.price_history import PriceHistoryByPool
from bursar.model import event as ev
from bursar.model.errors import BrokenInvariant
from bursar.model.fleet.changed_nodes import nodes_after
from bursar.model.fleet.fleet import Fleet, Node, Pool
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.lifecycle import fence
from bursar.model.units import HOUR_MS, MINUTE_MS

LATE_MS = 10 * MINUTE_MS
"""Nodes without events are posted this long after an hour's end, because engines report late."""


class Meter:
    """All nodes and all unfinished jobs. ``sequence`` is the number of the next entry."""

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
        """Nodes that left recently and the time they are paid until: a late report may bring one back."""
        self.on_job_closed: Callable[[OpenJob], None] = _no_callback
        """Called for each finished job after its last entry."""
        self.prices = PriceHistoryByPool()
        self._apply = _appliers(self)

    def apply(self, event: ev.LoggedEvent) -> None:
        """Applies one event and posts the hours that it closes."""
        at_ms = event.at_ms
        if at_ms > self.now_ms:
            self.now_ms = at_ms
            if at_ms >= self.due_ms:
                self._close_hours(at_ms)
        self._apply[type(event)](event)

    def on_bill(self, rerate: Callable[[ev.BillReceived], object]) -> None:
        """Sets the callback for real bills, which change nothing that is metered."""
        self._apply[ev.BillReceived] = rerate

    def close(self, now_ms: int) -> None:
        """Posts everything up to now, at the end of a log. In mid-hour, later postings would differ."""
        self.now_ms = max(self.now_ms, now_ms)
        for node in self.nodes.values():
            node.advance_to(now_ms)
            node.post_all()

    def accrued(self, now_ms: int) -> list[LedgerEntry]:
        """The entries that ``close`` would post, without posting them."""
        entries: list[LedgerEntry] = []
        scratch = Meter(entries.append, self.rule)
        scratch.sequence, scratch.now_ms = self.sequence, max(self.now_ms, now_ms)
        for node in self.nodes.values():
            copied = node.copy(scratch)
            copied.advance_to(now_ms)
            copied.post_all()
        return entries

    def _close_hours(self, at_ms: int) -> None:
        hour_ms = (at_ms - LATE_MS) // HOUR_MS * HOUR_MS
        for node in self.nodes.values():
            node.advance_to(hour_ms)
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
            self._close_job(job)

    def assigned(self, event: ev.AttemptAssigned) -> None:
        at_ms, attempt, placement = event.at_ms, event.attempt, event.placement
        job = self.jobs.get(event.job_id)
        if job is None or job.live is not None or attempt != job.attempt + 1:
            raise BrokenInvariant(f"job {event.job_id} cannot be assigned attempt {attempt}")
        if job.claimed:
            self._drop_claim(job, at_ms)
        job.attempt = attempt
        job.live = self._hold_nodes(job, placement, at_ms)
        if placement.anchors is not None:
            job.live.anchors = self._hold_nodes(job, placement.anchors, at_ms)

    def _hold_nodes(self, job: OpenJob, placement: Placement, at_ms: int) -> LiveAttempt:
        """Adds the tasks of an attempt, or of its anchors, to their nodes."""
        attempt = job.attempt
        live = LiveAttempt(attempt, placement.pool, placement.flavor, UnsavedWork(at_ms))
        usage = account_of(AccountKind.USAGE, job.queue)
        for node_id, tasks in _by_node(placement.tasks):
            node = self._node(node_id, job.id)
            holding = NodeHolding(usage, tasks, job.queue, job.id, attempt, live.unsaved)
            node.advance_to(at_ms)
            node.hold(job.id, holding)
            live.nodes.append(node)
        return live

    def saved(self, event: ev.CheckpointSaved) -> None:
        job = fence(self.jobs.get(event.job_id), event.attempt)
        live = None if job is None else job.live
        while live is not None:
            for node in live.nodes:
                node.advance_to(event.at_ms)
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
            self._close_job(job)

    def _close_job(self, job: OpenJob) -> None:
        del self.jobs[job.id]
        self.on_job_closed(job)

    def _end(self, job: OpenJob, at_ms: int, *, lost: bool) -> None:
        """Removes the attempt from its nodes; unsaved work is waste unless the job was stopped on purpose."""
        live = job.live
        job.live = None
        while live is not None:
            for node in live.nodes:
                node.advance_to(at_ms)
                node.leave(job.id)
            if lost and not job.was_stopped_on_purpose:
                self._reclassify(job, live)
            live = live.anchors

    def _reclassify(self, job: OpenJob, live: LiveAttempt) -> None:
        """Posts unsaved usage as waste, hour by hour."""
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
                    debit=account_of(AccountKind.WASTE, job.queue),
                    credit=account_of(AccountKind.USAGE, job.queue),
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

    # -- claims ----------------------------------------------------------------------------------

    def claimed(self, event: ev.PlacementClaimed) -> None:
        job = self.jobs.get(event.job_id)
        if job is None or job.live is not None:
            raise BrokenInvariant(f"job {event.job_id} cannot claim a placement")
        self._drop_claim(job, event.at_ms)
        nodes = []
        for node_id, tasks in _by_node(event.placement.all_tasks):
            node = self._node(node_id, job.id)
            account = account_of(AccountKind.RESERVED, node.shape.name)
            node.advance_to(event.at_ms)
            node.reserve(job.id, NodeHolding(account, tasks, job.queue, job.id))
            nodes.append(node)
        job.claimed = tuple(nodes)

    def released(self, event: ev.ClaimReleased) -> None:
        job = self.jobs.get(event.job_id)
        if job is not None:
            self._drop_claim(job, event.at_ms)

    def _drop_claim(self, job: OpenJob, at_ms: int) -> None:
        for node in job.claimed:
            node.advance_to(at_ms)
            node.release(job.id)
        job.claimed = ()

    # -- the fleet: a late report about a node that is gone changes nothing ----------------------

    def declared(self, event: ev.FleetDeclared) -> None:
        existing = [Node(id=one.id, pool=one.shape.name) for one in self.nodes.values()]
        pool_of_node = nodes_after(self.fleet, event.fleet, existing)
        for name in sorted(self.nodes.keys() - pool_of_node.keys()):
            self._remove_node(self.nodes[name], event.at_ms)
        self.fleet = event.fleet
        self.pools = {pool.name: pool for pool in event.fleet.pools}
        for declared in event.fleet.pools:
            self.prices.note(declared, event.at_ms)
        for name, pool in pool_of_node.items():
            node, shape = self.nodes.get(name), self.pools[pool]
            if node is None:
                self._add_node(name, shape, event.at_ms)
            elif shape != node.shape:
                node.advance_to(event.at_ms)
                node.reshape(shape)

    def node_added(self, event: ev.NodeAdded) -> None:
        if event.node.id in self.nodes:
            raise BrokenInvariant(f"node {event.node.id} joined twice")
        self._add_node(event.node.id, self.pools[event.node.pool], event.at_ms)

    def node_lost(self, event: ev.NodeLost) -> None:
        node = self.nodes.get(event.node)
        if node is not None:
            self._remove_node(node, event.at_ms)

    def foreign_seen(self, event: ev.ForeignUsageSeen) -> None:
        node = self.nodes.get(event.node)
        if node is not None:
            node.set_foreign_usage(event)

    def price_changed(self, event: ev.PriceChanged) -> None:
        price = event.node_micro_usd_per_hour
        shape = replace(self.pools[event.pool], node_micro_usd_per_hour=price)
        self.pools[event.pool] = shape
        self.prices.note(shape, event.at_ms)
        for node in self.nodes.values():
            if node.shape.name == event.pool:
                node.advance_to(event.at_ms)
                node.reprice(shape)

    def _add_node(self, name: str, shape: Pool, at_ms: int) -> None:
        node = NodeMeter(name, shape, self.rule, self)
        node.begin(max(at_ms, self.gone.pop(name, at_ms)))
        self.nodes[name] = node

    def _remove_node(self, node: NodeMeter, at_ms: int) -> None:
        """Removes a node: its attempts are lost and its reservations end."""
        for job_id in sorted(node.reserved):
            self._drop_claim(self.jobs[job_id], at_ms)
        for job_id in sorted(node.held.keys() & self.jobs.keys()):
            job = self.jobs[job_id]
            self._end(job, at_ms, lost=True)
            if job.was_stopped_on_purpose:
                self._close_job(job)
        node.advance_to(at_ms)
        node.post_all()
        self.gone[node.id] = node.clock_ms
        del self.nodes[node.id]

    def _node(self, node_id: str, job_id: str) -> NodeMeter:
        node = self.nodes.get(node_id)
        if node is None:
            raise BrokenInvariant(f"job {job_id} is placed on node {node_id}, which does not exist")
        return node


def _by_node(tasks: tuple[Task, ...]) -> list[tuple[str, tuple[Task, ...]]]:
    if len(tasks) == 1:
        return [(tasks[0].node, tasks)]
    by_node: dict[str, list[Task]] = {}
    for task in tasks:
        by_node.setdefault(task.node, []).append(task)
    return [(node, tuple(node_tasks)) for node, node_tasks in by_node.items()]


def _no_callback(_job: OpenJob) -> None:
    """The default of ``on_job_closed``."""


def _ignore(event: ev.LoggedEvent) -> None:
    """For events that change neither holders nor prices."""


def _appliers(meter: Meter) -> dict[type, Callable[..., object]]:
    """The method that applies each type of event."""
    return {
        ev.JobSubmitted: meter.submitted,
        ev.JobCancelled: meter.cancelled,
        ev.AttemptAssigned: meter.assigned,
        ev.AttemptStarted: _ignore,
        ev.CheckpointSaved: meter.saved,
        ev.AttemptResumed: _ignore,
        ev.AttemptStopping: _ignore,
        ev.AttemptExpired: meter.expired,
        ev.AttemptPreempted: meter.ended,
        ev.AttemptSucceeded: meter.ended,
        ev.AttemptFailed: meter.ended,
        ev.PlacementClaimed: meter.claimed,
        ev.ClaimReleased: meter.released,
        ev.GpuPartitioned: _ignore,
        ev.NodeAdded: meter.node_added,
        ev.NodeDrained: _ignore,
        ev.NodeRestored: _ignore,
        ev.NodeLost: meter.node_lost,
        ev.SpotNotice: _ignore,
        ev.ForeignUsageSeen: meter.foreign_seen,
        ev.TenantChanged: _ignore,
        ev.PriceChanged: meter.price_changed,
        ev.BudgetLevelChanged: _ignore,
        ev.FleetDeclared: meter.declared,
        ev.BillReceived: _ignore,
    }

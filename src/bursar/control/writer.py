"""The writer: the one thread that commits to the log and changes the state.

    requests, reports -> one batch -> commit -> apply -> results
    state changed -> decide -> check -> commit -> apply -> carry out

Commit comes before apply, and apply before results and orders, so a crash between any two steps loses
nothing: what was committed is in the log, and what was not was never acknowledged.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, assert_never

from bursar.control.live.event_broadcast import EventBroadcast
from bursar.control.live.live_state import LiveState
from bursar.control.live.progress_buffer import ProgressBuffer
from bursar.control.live.transaction import Installation, Transaction
from bursar.control.order_executor import EngineOrder, StopOrder
from bursar.control.requests.report_to_event import RecordReports
from bursar.control.requests.write_request import AfterCommit, WriteRequest
from bursar.core.check import require_valid
from bursar.core.cycle import decide
from bursar.core.order_events import events_for
from bursar.core.state.attempt_limits import paid_grace_ms
from bursar.core.state.notices import notice_on, time_left_ms
from bursar.model.decision import (
    ClaimPlacement,
    EvacuateJob,
    Hold,
    Order,
    PartitionGpu,
    PreemptJob,
    ReleaseClaim,
    StartJob,
    StopJob,
)
from bursar.model.errors import BrokenInvariant, EngineFault, UserError
from bursar.model.event import ClaimReleased, LoggedEvent, NodeLost
from bursar.model.units import SECOND_MS
from bursar.ports import Batch, Clock, LeaderLease, LeadershipLost, Store

CYCLE_GAP_SECONDS = 0.1
IDLE_SECONDS = 0.5
MAX_BATCH_REQUESTS = 2_000
SNAPSHOT_EVERY = 50_000
STORE_PAUSE_SECONDS = 0.25


class StateQuery:
    """A read-only query that runs on the writer thread."""

    def __init__(self, query: Callable[[LiveState, int], Any]) -> None:
        self.query = query
        self.future: Future[Any] = Future()


class Writer:
    """The work of a leader. One thread calls ``run_once`` in a loop."""

    def __init__(
        self, store: Store, live: LiveState, clock: Clock, broadcast: EventBroadcast
    ) -> None:
        self.store = store
        self.live = live
        self.clock = clock
        self.broadcast = broadcast
        self.installation = Installation()
        self.lead: LeaderLease | None = None
        self.carry_out: Callable[[Iterable[EngineOrder]], None] = lambda _orders: None
        self.recover: Callable[[], None] = lambda: None
        """Sends the engines committed orders that may never have reached them."""
        self.on_halt: Callable[[str], None] = lambda _problem: None
        self.inbox: queue.SimpleQueue[WriteRequest[Any] | StateQuery | None] = queue.SimpleQueue()
        self.progress = ProgressBuffer()
        self.cycles = 0
        self.last_cycle_ms = 0.0
        self.stale_reports = 0
        self.halted = ""
        self.store_fault = ""
        self._dirty = True
        self._commit_uncertain = False
        self._last_cycle = 0.0
        self._deferred: list[WriteRequest[Any]] = []
        self._snapshot_at = live.sequence

    # -- one iteration ---------------------------------------------------------------------------

    def run_once(self) -> None:
        """Serve the inbox, then run a cycle if the state changed and the last one is long enough ago.

        ``may_decide`` is read once, so that a cycle always sees the reports that were deferred for it.
        """
        requests, queries = self.receive(self._receive_timeout())
        may_decide = self._seconds_until_cycle() <= 0
        for batch in _batches(self._defer_reports(requests, may_decide)):
            if self._is_up_to_date():
                self._commit_requests(batch)
            else:
                self._reject(batch, EngineFault(self.store_fault, retry_after_seconds=0))
        for query in queries:
            self.run_query(query)
        if self.live.timer_due(self.clock.now_ms()):
            self._dirty = True
        if self.live.is_declared and self._is_up_to_date():
            self._check_budgets()
        if self._is_up_to_date() and self.progress.is_due(time.monotonic()):
            self._write_progress()
        if self._is_up_to_date() and self._dirty and may_decide:
            try:
                self._cycle()
            except BrokenInvariant as error:
                self._halt(error)
        if self.live.sequence - self._snapshot_at >= SNAPSHOT_EVERY:
            self.save_snapshot()

    def _receive_timeout(self) -> float:
        if self._commit_uncertain:
            return 0.0
        if self._dirty or self._deferred:
            return max(0.0, self._seconds_until_cycle())
        timer_ms = self.live.next_timer_ms()
        if timer_ms is None:
            return IDLE_SECONDS
        return min(IDLE_SECONDS, max(0.0, (timer_ms - self.clock.now_ms()) / 1000))

    def _seconds_until_cycle(self) -> float:
        return self._last_cycle + CYCLE_GAP_SECONDS - time.monotonic()

    def _defer_reports(
        self, requests: list[WriteRequest[Any]], may_decide: bool
    ) -> list[WriteRequest[Any]]:
        """Defer engine reports until the next cycle or the next commit of something else.

        No caller waits for them, and a transaction costs the same whatever is in it.
        """
        requests = [*self._deferred, *requests]
        only_reports = all(isinstance(one, RecordReports) for one in requests)
        too_early = not may_decide and len(requests) < MAX_BATCH_REQUESTS
        self._deferred = requests if only_reports and too_early else []
        return [] if self._deferred else requests

    def receive(self, timeout_seconds: float) -> tuple[list[WriteRequest[Any]], list[StateQuery]]:
        """Takes what is in the inbox; waits up to the timeout for the first item."""
        requests: list[WriteRequest[Any]] = []
        queries: list[StateQuery] = []
        try:
            if timeout_seconds > 0:
                item = self.inbox.get(timeout=timeout_seconds)
            else:
                item = self.inbox.get_nowait()
            while True:
                if isinstance(item, StateQuery):
                    queries.append(item)
                elif item is not None:
                    requests.append(item)
                if len(requests) >= MAX_BATCH_REQUESTS:
                    break
                item = self.inbox.get_nowait()
        except queue.Empty:
            pass
        return requests, queries

    def run_query(self, query: StateQuery) -> None:
        """Resolve a query's future with its result or its error."""
        if not query.future.set_running_or_notify_cancel():
            return
        try:
            query.future.set_result(query.query(self.live, self.clock.now_ms()))
        except Exception as error:
            query.future.set_exception(error)

    # -- committing ------------------------------------------------------------------------------

    def _commit_requests(self, requests: list[WriteRequest[Any]]) -> None:
        """Commit requests in one transaction, then resolve their futures."""
        transaction = Transaction(self.live, self.store, self.clock.now_ms(), self.installation)
        prepared: list[tuple[WriteRequest[Any], AfterCommit]] = []
        for request in requests:
            try:
                prepared.append((request, request.prepare(transaction)))
            except (UserError, EngineFault, BrokenInvariant) as error:
                _fail(request, error)
        self.progress.add(transaction.progressed, time.monotonic())
        if not transaction.is_empty:
            try:
                self._commit(transaction.batch())
            except LeadershipLost as error:
                for request, _ in prepared:
                    _fail(request, error)
                raise
            except EngineFault as error:
                self._reject([request for request, _ in prepared], error)
                return
        for request, after_commit in prepared:
            if isinstance(request, RecordReports):
                self.stale_reports += request.stale
            if request.future.set_running_or_notify_cancel():
                request.future.set_result(after_commit())

    def _reject(self, requests: list[WriteRequest[Any]], fault: EngineFault) -> None:
        """Fail callers' requests, which they may retry; requeue engine reports."""
        for request in requests:
            if isinstance(request, RecordReports):
                request.stale = 0
                self.inbox.put(request)
            else:
                _fail(request, fault)
        time.sleep(min(fault.retry_after_seconds, STORE_PAUSE_SECONDS))

    def _commit(self, batch: Batch) -> None:
        """Write a batch to the log, apply it, publish it and stop attempts on lost nodes."""
        assert self.lead is not None
        batch = replace(batch, progressed=self.progress.unwritten())
        try:
            last = self.store.append(batch, self.lead)
        except EngineFault as fault:
            self.store_fault = str(fault)
            self._commit_uncertain = True
            raise
        self.store_fault = ""
        self.progress.written(batch.progressed)
        first = self.live.sequence + 1
        if batch.events and last != self.live.sequence + len(batch.events):
            raise BrokenInvariant(
                f"the log ends at {last}; after {self.live.sequence} and "
                f"{len(batch.events)} more it should end at {first + len(batch.events) - 1}"
            )
        stops = self._stops_on_lost_nodes(batch.events)
        if self.live.apply(batch.events):
            self._dirty = True
        self.broadcast.publish(first, batch.events)
        if stops:
            self.carry_out(stops)

    def _is_up_to_date(self) -> bool:
        """Whether the state matches the log. After a failed commit only the log can tell."""
        return not self._commit_uncertain or self._resolve_uncertain_commit()

    def _resolve_uncertain_commit(self) -> bool:
        first = self.live.sequence + 1
        assert self.lead is not None
        try:
            self.store.settle(self.lead)
            missed = self.live.catch_up(self.store)
        except EngineFault as fault:
            self.store_fault = str(fault)
            time.sleep(STORE_PAUSE_SECONDS)
            return False
        self._commit_uncertain = False
        if missed:
            self.broadcast.publish(first, missed)
            self._dirty = True
            self.recover()
        return True

    def _stops_on_lost_nodes(self, events: Iterable[LoggedEvent]) -> list[EngineOrder]:
        """Orders to stop the attempts on lost nodes, should they still run."""
        orders: list[EngineOrder] = []
        for event in events:
            if isinstance(event, NodeLost) and event.node in self.live.state.pool_of_node:
                pool = self.live.state.pool_of_node[event.node]
                for holder in sorted(pool.by_id[event.node].holders):
                    record = self.live.state.jobs.get(holder)
                    if record is not None:
                        stop = StopOrder(job_id=holder, attempt=record.attempt, grace_seconds=0)
                        engine = self.live.engine_of(pool.spec.name)
                        orders.append(EngineOrder(engine=engine, order=stop))
        return orders

    def _check_budgets(self) -> None:
        """Commit which budgets have passed a threshold or begun a new period."""
        budgets, now_ms = self.live.books.budgets, self.clock.now_ms()
        changes = budgets.check(self.live.state.budgets.levels, now_ms)
        if not changes:
            return
        try:
            self._commit(Batch(events=tuple(changes)))
        except EngineFault:
            budgets.check_again()

    def _write_progress(self) -> None:
        """Write buffered progress by itself when no other commit took it along."""
        try:
            self._commit(Batch())
        except EngineFault:
            return

    # -- deciding --------------------------------------------------------------------------------

    def _cycle(self) -> None:
        if self.halted or not self.live.is_declared:
            self._dirty = False
            return
        began = time.monotonic()
        self._last_cycle = began
        now_ms = self.clock.now_ms()
        decisions = decide(self.live.state, now_ms)
        require_valid(self.live.state, decisions, now_ms)
        orders = [one for one in decisions if not isinstance(one, Hold)]
        self.live.after_cycle(now_ms, has_waiting_jobs=len(orders) < len(decisions))
        events = tuple(event for order in orders for event in events_for(order, now_ms))
        self._dirty = False
        if events:
            try:
                engine_orders = [one for order in orders for one in self._engine_orders(order)]
                self._commit(Batch(events=events))
            except EngineFault:
                self._dirty = True
                return
            self._dirty = any(isinstance(event, ClaimReleased) for event in events)
            self.carry_out(engine_orders)
        self.cycles += 1
        self.last_cycle_ms = (time.monotonic() - began) * 1000

    def _engine_orders(self, order: Order) -> list[EngineOrder]:
        state = self.live.state
        match order:
            case StartJob(job_id=job_id, placement=placement):
                engine, spec = self.live.engine_of(placement.pool), state.jobs[job_id].spec
                return [EngineOrder(engine=engine, order=order, spec=spec)]
            case PreemptJob(job_id=job_id) | StopJob(job_id=job_id) | EvacuateJob(job_id=job_id):
                return [stop_order(self.live, job_id, self.clock.now_ms())]
            case PartitionGpu(node=node):
                engine = self.live.engine_of(state.pool_of_node[node].spec.name)
                return [EngineOrder(engine=engine, order=order)]
            case ClaimPlacement() | ReleaseClaim():
                return []
            case _:
                assert_never(order)

    def _halt(self, error: BrokenInvariant) -> None:
        """Stop scheduling after a broken invariant; reads and reports continue."""
        self.halted = f"{error} (after event {self.live.sequence})"
        self._dirty = False
        self.on_halt(self.halted)

    def decide_soon(self) -> None:
        """Request a cycle for a change that is not in the log."""
        self._dirty = True

    # -- snapshots -------------------------------------------------------------------------------

    def save_snapshot(self) -> None:
        """Save a snapshot, so that the next start need not read the whole log."""
        if self.lead is None or not self.live.is_declared:
            return
        if self.live.sequence == self._snapshot_at:
            return
        self.store.keep_snapshot(self.live.snapshot(self.clock.now_ms()), self.lead)
        self._snapshot_at = self.live.sequence


def stop_order(live: LiveState, job_id: str, now_ms: int) -> EngineOrder:
    """The order to stop a job's live attempt.

    Its grace period ends before its node is taken away and before its budget is used up.
    """
    record = live.state.jobs[job_id]
    assert record.placement is not None
    notice = notice_on(live.state, record)
    limits_ms = [] if notice is None else [time_left_ms(notice, now_ms)]
    if (paid_ms := paid_grace_ms(record, now_ms)) is not None:
        limits_ms.append(paid_ms)
    stop = StopOrder(
        job_id=job_id,
        attempt=record.attempt,
        at_most_seconds=min(limits_ms) // SECOND_MS if limits_ms else None,
    )
    return EngineOrder(engine=live.engine_of(record.placement.pool), order=stop)


def _batches(requests: list[WriteRequest[Any]]) -> Iterable[list[WriteRequest[Any]]]:
    """Requests in order, split around those that need a transaction of their own."""
    batch: list[WriteRequest[Any]] = []
    for request in requests:
        if request.alone:
            if batch:
                yield batch
            yield [request]
            batch = []
        else:
            batch.append(request)
    if batch:
        yield batch


def _fail(request: WriteRequest[Any], error: Exception) -> None:
    if request.future.set_running_or_notify_cancel():
        request.future.set_exception(error)

"""The writer: one thread that commits, and the only one that touches the state.

    requests, reports -> one batch -> commit -> apply -> answer
    something changed -> decide -> check -> commit -> apply -> act

Commit comes before apply and apply before act, so a crash between any two steps loses nothing: what was
committed is found in the log, and what was not was never promised to anybody.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, assert_never

from bursar.control.engine_threads.order_executor import EngineOrder, StopOrder
from bursar.control.live.event_broadcast import EventBroadcast
from bursar.control.live.live_state import LiveState
from bursar.control.live.progress_buffer import ProgressBuffer
from bursar.control.live.transaction import Installation, Transaction
from bursar.control.requests.report_to_event import TakeReports
from bursar.control.requests.write_request import WriteRequest
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
from bursar.ports import Batch, Clock, LeaderLease, LeadershipLost, Recorded, Store

CYCLE_GAP_SECONDS = 0.1
IDLE_SECONDS = 0.5
MOST_IN_A_GROUP = 2_000
MOST_EVENTS_IN_A_GROUP = 10_000
SNAPSHOT_EVERY = 50_000
STORE_PAUSE_SECONDS = 0.25


class StateQuery:
    """Something to be worked out on the state and the books as they are."""

    def __init__(self, ask: Callable[[LiveState, int], Any]) -> None:
        self.ask = ask
        self.future: Future[Any] = Future()


class Writer:
    """The state of a leader's work. ``turn`` is called again and again by one thread."""

    def __init__(self, store: Store, live: LiveState, clock: Clock, board: EventBroadcast) -> None:
        self.store = store
        self.live = live
        self.clock = clock
        self.board = board
        self.installation = Installation()
        self.lead: LeaderLease | None = None
        self.act: Callable[[Iterable[EngineOrder]], None] = _nobody_acts
        self.recover: Callable[[], None] = _nothing
        """Hand the engines again what was committed while nobody saw that it was."""
        self.broke: Callable[[str], None] = _nobody_hears
        self.inbox: queue.SimpleQueue[WriteRequest[Any] | StateQuery | None] = queue.SimpleQueue()
        self.progress = ProgressBuffer()
        self.cycles = 0
        self.last_cycle_ms = 0.0
        self.stale_reports = 0
        self.halted = ""
        self.store_fault = ""
        self._dirty = True
        self._unsure = False
        self._last_cycle = 0.0
        self._held: list[WriteRequest[Any]] = []
        self._snapshot_at = live.sequence

    # -- one turn --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Serve what has come, then decide if anything changed and the last cycle is long enough ago.

        Whether it is, is asked once: a cycle never goes past reports that were kept for it.
        """
        requests, questions = self.take(self._patience())
        may_decide = self._until_cycle() <= 0
        for group in _groups(self._in_company(requests, may_decide)):
            if self._is_sure():
                self._commit_together(group)
            else:
                self._not_now(group, EngineFault(self.store_fault, retry_after_seconds=0))
        for question in questions:
            self.answer(question)
        if self.live.timer_due(self.clock.now_ms()):
            self._dirty = True
        if self.live.is_declared and self._is_sure():
            self._look_at_budgets()
        if self._is_sure() and self.progress.is_due(time.monotonic()):
            self._write_progress()
        if self._is_sure() and self._dirty and may_decide:
            try:
                self._cycle()
            except BrokenInvariant as error:
                self._halt(error)
        if self.live.sequence - self._snapshot_at >= SNAPSHOT_EVERY:
            self.keep_snapshot()

    def _patience(self) -> float:
        if self._unsure:
            return 0.0
        if self._dirty or self._held:
            return max(0.0, self._until_cycle())
        timer_ms = self.live.next_timer_ms()
        if timer_ms is None:
            return IDLE_SECONDS
        return min(IDLE_SECONDS, max(0.0, (timer_ms - self.clock.now_ms()) / 1000))

    def _until_cycle(self) -> float:
        """Seconds."""
        return self._last_cycle + CYCLE_GAP_SECONDS - time.monotonic()

    def _in_company(
        self, requests: list[WriteRequest[Any]], may_decide: bool
    ) -> list[WriteRequest[Any]]:
        """What engines report while it is too early to decide is kept until then, or until something else is
        committed: nobody waits for an answer, and each transaction costs the same whatever is in it."""
        requests = [*self._held, *requests]
        only_reports = all(isinstance(one, TakeReports) for one in requests)
        too_early = not may_decide and len(requests) < MOST_IN_A_GROUP
        self._held = requests if only_reports and too_early else []
        return [] if self._held else requests

    def take(self, patience: float) -> tuple[list[WriteRequest[Any]], list[StateQuery]]:
        requests: list[WriteRequest[Any]] = []
        questions: list[StateQuery] = []
        try:
            item = self.inbox.get(timeout=patience) if patience > 0 else self.inbox.get_nowait()
            while True:
                if isinstance(item, StateQuery):
                    questions.append(item)
                elif item is not None:
                    requests.append(item)
                if len(requests) >= MOST_IN_A_GROUP:
                    break
                item = self.inbox.get_nowait()
        except queue.Empty:
            pass
        return requests, questions

    def answer(self, question: StateQuery) -> None:
        """Work out a question; whoever asked gets the error if it cannot be."""
        if not question.future.set_running_or_notify_cancel():
            return
        try:
            question.future.set_result(question.ask(self.live, self.clock.now_ms()))
        except Exception as error:
            question.future.set_exception(error)

    # -- committing ------------------------------------------------------------------------------

    def _commit_together(self, requests: list[WriteRequest[Any]]) -> None:
        group = Transaction(self.live, self.store, self.clock.now_ms(), self.installation)
        answers: list[tuple[WriteRequest[Any], Callable[[], Any]]] = []
        for request in requests:
            try:
                answers.append((request, request.prepare(group)))
            except (UserError, EngineFault, BrokenInvariant) as error:
                _fail(request, error)
        self.progress.note(group.progressed, time.monotonic())
        if not group.is_empty:
            try:
                self._commit(group.batch())
            except LeadershipLost as error:
                for request, _ in answers:
                    _fail(request, error)
                raise
            except EngineFault as error:
                self._not_now([request for request, _ in answers], error)
                return
        for request, answer in answers:
            if isinstance(request, TakeReports):
                self.stale_reports += request.stale
            if request.future.set_running_or_notify_cancel():
                request.future.set_result(answer())

    def _not_now(self, requests: list[WriteRequest[Any]], fault: EngineFault) -> None:
        """Callers are told and may ask again; what engines reported must not be forgotten."""
        for request in requests:
            if isinstance(request, TakeReports):
                request.stale = 0
                self.inbox.put(request)
            else:
                _fail(request, fault)
        time.sleep(min(fault.retry_after_seconds, STORE_PAUSE_SECONDS))

    def _commit(self, batch: Batch) -> None:
        """Write a batch, then let everything that follows from it follow."""
        assert self.lead is not None
        batch = replace(batch, progressed=self.progress.unwritten())
        try:
            last = self.store.append(batch, self.lead)
        except EngineFault as fault:
            self.store_fault = str(fault)
            self._unsure = True
            raise
        self.store_fault = ""
        self.progress.written(batch.progressed)
        first = self.live.sequence + 1
        if batch.events and last != self.live.sequence + len(batch.events):
            raise BrokenInvariant(
                f"the log ends at {last}; after {self.live.sequence} and "
                f"{len(batch.events)} more it should end at {first + len(batch.events) - 1}"
            )
        lost = self._lost_with(batch.events)
        if self.live.apply(batch.events):
            self._dirty = True
        self.board.publish(
            [Recorded(sequence=first + n, event=event) for n, event in enumerate(batch.events)]
        )
        if lost:
            self.act(lost)

    def _is_sure(self) -> bool:
        """Whether the state is up to the log. After a fault only the log knows what was written."""
        return not self._unsure or self._find_out_what_was_written()

    def _find_out_what_was_written(self) -> bool:
        known = self.live.sequence
        assert self.lead is not None
        try:
            self.store.settle(self.lead)
            missed = self.live.catch_up(self.store)
        except EngineFault as fault:
            self.store_fault = str(fault)
            time.sleep(STORE_PAUSE_SECONDS)
            return False
        self._unsure = False
        if missed:
            self.board.publish(
                [Recorded(sequence=known + 1 + n, event=one) for n, one in enumerate(missed)]
            )
            self._dirty = True
            self.recover()
        return True

    def _lost_with(self, events: Iterable[LoggedEvent]) -> list[EngineOrder]:
        """Attempts on nodes that are given up: if they still run somewhere, they must not."""
        acts: list[EngineOrder] = []
        for event in events:
            if isinstance(event, NodeLost) and event.node in self.live.state.pool_of_node:
                pool = self.live.state.pool_of_node[event.node]
                for holder in sorted(pool.by_id[event.node].holders):
                    record = self.live.state.jobs.get(holder)
                    if record is not None:
                        stop = StopOrder(job_id=holder, attempt=record.attempt, grace_seconds=0)
                        engine = self.live.engine_of(pool.spec.name)
                        acts.append(EngineOrder(engine=engine, order=stop))
        return acts

    def _look_at_budgets(self) -> None:
        """Write down which budgets have passed a step or begun a new period; mostly it is too early."""
        budgets, now_ms = self.live.books.budgets, self.clock.now_ms()
        changes = budgets.check(self.live.state.budgets.levels, now_ms)
        if not changes:
            return
        try:
            self._commit(Batch(events=tuple(changes)))
        except EngineFault:
            budgets.check_again()

    def _write_progress(self) -> None:
        """Nothing else was written for a while."""
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
                acts = [act for order in orders for act in self._acts_for(order)]
                self._commit(Batch(events=events))
            except EngineFault:
                self._dirty = True
                return
            self._dirty = any(isinstance(event, ClaimReleased) for event in events)
            self.act(acts)
        self.cycles += 1
        self.last_cycle_ms = (time.monotonic() - began) * 1000

    def _acts_for(self, order: Order) -> list[EngineOrder]:
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
        """We are wrong: decide nothing more, keep the picture, and let reads and reports go on."""
        self.halted = f"{error} (after event {self.live.sequence})"
        self._dirty = False
        self.broke(self.halted)

    def decide_soon(self) -> None:
        """Something outside the log changed: look again."""
        self._dirty = True

    # -- snapshots -------------------------------------------------------------------------------

    def keep_snapshot(self) -> None:
        """So that the next start need not read the whole log."""
        if self.lead is None or not self.live.is_declared:
            return
        if self.live.sequence == self._snapshot_at:
            return
        self.store.keep_snapshot(self.live.snapshot(self.clock.now_ms()), self.lead)
        self._snapshot_at = self.live.sequence


def stop_order(live: LiveState, job_id: str, now_ms: int) -> EngineOrder:
    """Stop a job's live attempt as its recipe wants, before its node goes and while it can be paid for."""
    record = live.state.jobs[job_id]
    assert record.placement is not None
    notice = notice_on(live.state, record)
    ends = [] if notice is None else [time_left_ms(notice, now_ms)]
    if (paid_ms := paid_grace_ms(record, now_ms)) is not None:
        ends.append(paid_ms)
    stop = StopOrder(
        job_id=job_id,
        attempt=record.attempt,
        at_most_seconds=min(ends) // SECOND_MS if ends else None,
    )
    return EngineOrder(engine=live.engine_of(record.placement.pool), order=stop)


def _groups(requests: list[WriteRequest[Any]]) -> Iterable[list[WriteRequest[Any]]]:
    """Requests in order, together where they may be."""
    group: list[WriteRequest[Any]] = []
    for request in requests:
        if request.alone:
            if group:
                yield group
            yield [request]
            group = []
        else:
            group.append(request)
    if group:
        yield group


def _fail(request: WriteRequest[Any], error: Exception) -> None:
    if request.future.set_running_or_notify_cancel():
        request.future.set_exception(error)


def _nobody_acts(_acts: Iterable[EngineOrder]) -> None:
    """Until there are engines."""


def _nobody_hears(_problem: str) -> None:
    """Until somebody wants to know."""


def _nothing() -> None:
    """Until there is something to recover."""

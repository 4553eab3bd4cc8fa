"""The control plane as the API, the CLI and the tests use it: thread-safe, results are futures.

One process leads and writes; the others follow the log, serve reads, and take over when the leader dies.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from bursar.accounting.ledger.ledger import Ledger
from bursar.background import BackgroundThread
from bursar.config.fleet.fleet_file import FleetFile
from bursar.control.live.event_broadcast import EventBroadcast, Subscription
from bursar.control.live.live_state import LiveState
from bursar.control.live.transaction import Installation
from bursar.control.monotonic_clock import MonotonicClock
from bursar.control.order_executor import EngineOrder, OrderExecutor
from bursar.control.queries.health import Health
from bursar.control.requests.fleet_requests import DeclareFleet
from bursar.control.requests.report_to_event import RecordReports
from bursar.control.requests.submission import NotLeader
from bursar.control.requests.write_request import WriteRequest
from bursar.control.writer import StateQuery, Writer, stop_order
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import StartJob
from bursar.model.engine_report import EngineReport, TasksEnded
from bursar.model.errors import EngineFault
from bursar.model.fleet.fleet import EngineKind
from bursar.model.jobs.attempt import Exit
from bursar.model.jobs.job import JobState
from bursar.model.tenants.identity import MEMBER_OF_ALL, Identity, Permission, Role
from bursar.ports import (
    AttemptRef,
    Clock,
    Engine,
    InterruptionSource,
    LeadershipLost,
    Store,
    StoreReader,
)

T = TypeVar("T")
FOLLOW_SECONDS = 0.25
TRY_LEAD_SECONDS = 2.0
REPORT_WAIT_SECONDS = 0.5
NOTICE_POLL_SECONDS = 5.0
"""Providers recommend at least this rate: the shortest notice is half a minute."""

OPERATOR = Identity(
    user="operator",
    role=Role.ADMIN,
    tenant=MEMBER_OF_ALL,
    scopes=frozenset(Permission),
    token_id="",
)
"""The user who starts the program; declares the initial fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneOptions:
    """Options and callbacks of a control plane."""

    address: str
    """Where this process listens; followers refer callers to it while it leads."""
    known_models: Collection[str]
    initial_fleet: FleetFile | None = None
    """Declared by the first leader of an empty log."""
    notify: Callable[[str], None] = lambda _message: None
    """Receives one-line messages for the operator."""
    save_fault: Callable[[str], str] = lambda _text: "nowhere"
    """Saves the text of an internal error; returns its location."""
    on_lead: Callable[[], None] = lambda: None
    """Called when this process has begun to lead."""
    interruption_sources: Sequence[InterruptionSource] = ()
    """Where providers announce that nodes will be taken away."""
    on_failure: Callable[[], None] = lambda: None
    """Called when the writer thread has died: the process should exit."""


class ControlPlane:
    """``start`` starts the writer thread; ``close`` ends it and leaves all jobs running."""

    def __init__(
        self,
        store: Store,
        engines: Mapping[EngineKind, Engine],
        options: PlaneOptions,
        clock: Clock | None = None,
    ) -> None:
        self.reader: StoreReader = store
        self._store = store
        self._engines = engines
        self._options = options
        self._fixed_clock = clock
        self._broadcast = EventBroadcast()
        self._writer = Writer(store, LiveState(), clock or MonotonicClock(), self._broadcast)
        self._writer.installation = Installation(engines=engines, known_models=options.known_models)
        self._executor: OrderExecutor | None = None
        self._report_threads: dict[EngineKind, BackgroundThread] = {}
        self._notice_threads: list[BackgroundThread] = []
        self._closing = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bursar-writer", daemon=True)
        self._error: BaseException | None = None

    # -- start and stop --------------------------------------------------------------------------

    def start(self, timeout_seconds: float = 60) -> None:
        """Start the writer thread; returns when the state is up to date with the log."""
        self._thread.start()
        if not self._ready.wait(timeout_seconds):
            raise EngineFault("the control plane did not start", retry_after_seconds=5)
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Stop deciding and writing. Jobs keep running; the next start recovers them."""
        self._closing.set()
        self._writer.inbox.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    @property
    def is_broken(self) -> bool:
        """Whether the writer thread died of an error."""
        return self._error is not None

    @property
    def is_leader(self) -> bool:
        return self._writer.lead is not None

    @property
    def leader_address(self) -> str | None:
        """Address of the leader, if known."""
        if self.is_leader:
            return self._options.address
        leader = self.reader.leader()
        return leader[1] if leader is not None else None

    def engine_for(self, cluster: str) -> Engine | None:
        """The engine of a cluster, if this process has it."""
        declared = self._writer.live.declared
        clusters = declared.fleet.clusters if declared is not None else ()
        kind = next((one.engine for one in clusters if one.name == cluster), None)
        return self._engines.get(kind) if kind is not None else None

    # -- writes ----------------------------------------------------------------------------------

    def send(self, request: WriteRequest[T]) -> Future[T]:
        """Queue a request for the writer; ``NotLeader`` when another process leads."""
        if self.is_leader:
            self._writer.inbox.put(request)
        else:
            request.future.set_exception(NotLeader(self.leader_address))
        return request.future

    # -- reads -----------------------------------------------------------------------------------

    def query_state(self, query: Callable[[FleetState, int], T]) -> Future[T]:
        """Run a read-only query on the fleet state, on the writer thread."""
        return self.query_live(lambda live, now_ms: query(live.state, now_ms))

    def query_ledger(self, query: Callable[[Ledger, FleetState, int], T]) -> Future[T]:
        """Run a query on the ledger. Copy out plain rows and process them in your own thread."""
        return self.query_live(lambda live, now_ms: query(live.books.ledger, live.state, now_ms))

    def query_live(self, query: Callable[[LiveState, int], T]) -> Future[T]:
        """Run a query on state and ledger together. It must copy what it returns."""
        queued = StateQuery(query)
        self._writer.inbox.put(queued)
        return queued.future

    def declaration(self) -> tuple[FleetFile, int] | None:
        """The declared fleet, and the version number of its declaration."""
        declared = self._writer.live.declared
        if declared is None:
            return None
        file = FleetFile(fleet=declared.fleet, tenants=declared.tenants, policies=declared.policies)
        return file, declared.at_ms

    def follow(self) -> Subscription:
        """A subscription to events committed from now on."""
        return self._broadcast.follow()

    def health(self) -> Health:
        """Figures for operators. Read without a lock, so they may differ by a few events."""
        writer, live = self._writer, self._writer.live
        leader = self.reader.leader()
        state = live.state if live.is_declared else None
        return Health(
            is_leader=self.is_leader,
            epoch=writer.lead.epoch if writer.lead is not None else leader[0] if leader else 0,
            leader_address=self.leader_address,
            last_sequence=live.sequence,
            live_attempts=sum(len(one) for one in list(state.running_in.values())) if state else 0,
            waiting=sum(backlog.count for backlog in list(state.active.values())) if state else 0,
            cycles=writer.cycles,
            last_cycle_ms=writer.last_cycle_ms,
            stale_reports=writer.stale_reports,
            halted=writer.halted,
            store_fault=writer.store_fault,
            engine_faults=self._engine_faults(),
        )

    def _engine_faults(self) -> dict[str, str]:
        """Current error of each engine: its reports cannot be read, or it refuses an order."""
        report_faults = {
            str(kind): f"its reports cannot be read: {thread.fault}"
            for kind, thread in list(self._report_threads.items())
            if thread.fault
        }
        return report_faults | (dict(self._executor.faults) if self._executor is not None else {})

    # -- the writer thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._follow_then_lead()
        except Exception as error:
            self._error = error
            location = self._options.save_fault(traceback.format_exc())
            self._options.notify(
                f"the control plane stopped at event {self._writer.live.sequence}: {error} "
                f"(details in {location}); jobs keep running, restart 'bursar up' to recover them"
            )
        finally:
            self._stop_leading()
            self._ready.set()
        if self._error is not None:
            self._options.on_failure()

    def _follow_then_lead(self) -> None:
        self._catch_up()
        while not self._closing.is_set():
            lead = self._store.try_lead(self._options.address)
            if lead is None:
                self._follow()
                continue
            self._writer.lead = lead
            try:
                self._start_leading()
                self._options.on_lead()
                if self._ready.is_set():
                    self._options.notify("this process is now the leader")
                self._ready.set()
                while not self._closing.is_set():
                    self._writer.run_once()
                self._writer.save_snapshot()
            except LeadershipLost:
                self._options.notify("another process is now the leader; following it")
            finally:
                self._stop_leading()

    def _follow(self) -> None:
        """Follow the log and serve reads until it is time to try for the lead again."""
        self._ready.set()
        until = time.monotonic() + TRY_LEAD_SECONDS
        while time.monotonic() < until and not self._closing.is_set():
            self._catch_up()
            requests, queries = self._writer.receive(FOLLOW_SECONDS)
            for request in requests:
                request.future.set_exception(NotLeader(self.leader_address))
            for query in queries:
                self._writer.run_query(query)

    def _catch_up(self) -> None:
        live = self._writer.live
        events = live.catch_up(self._store)
        self._broadcast.publish(live.sequence - len(events) + 1, events)

    # -- leading ---------------------------------------------------------------------------------

    def _start_leading(self) -> None:
        self._catch_up()
        live, writer = self._writer.live, self._writer
        if self._fixed_clock is None:
            writer.clock = MonotonicClock(not_before_ms=live.last_event_ms)
        executor = OrderExecutor(
            self._engines, self._store, self._enqueue_reports, writer.clock.now_ms
        )
        self._executor = executor
        writer.carry_out = executor.put
        writer.recover = self._recover
        writer.on_halt = self._save_halted_state
        if not live.is_declared and self._options.initial_fleet is not None:
            writer.inbox.put(DeclareFleet(caller=OPERATOR, declared=self._options.initial_fleet))
        for engine in self._engines.values():
            engine.open(live.live_attempts())
        self._recover()
        executor.start()
        for kind, engine in self._engines.items():
            read = partial(self._read_reports, engine)
            self._report_threads[kind] = BackgroundThread("bursar-reports", read)
        for source in self._options.interruption_sources:
            poll = partial(self._poll_notices, source)
            thread = BackgroundThread("bursar-spot-notices", poll, NOTICE_POLL_SECONDS)
            self._notice_threads.append(thread)
        for thread in (*self._report_threads.values(), *self._notice_threads):
            thread.start()
        writer.decide_soon()

    def _read_reports(self, engine: Engine) -> None:
        """Waits for an engine's reports and passes them to the writer."""
        if reports := engine.reports(timeout_seconds=REPORT_WAIT_SECONDS):
            self._enqueue_reports(reports, engine.settled)

    def _poll_notices(self, source: InterruptionSource) -> None:
        if notices := source.poll():
            self._enqueue_reports(notices)

    def _recover(self) -> None:
        """Send the engines committed orders that may never have reached them."""
        live = self._writer.live
        orders: list[EngineOrder] = []
        if not live.is_declared or self._executor is None:
            return
        state = live.state
        for ref in live.live_attempts():
            record = state.jobs[ref.job_id]
            assert record.placement is not None
            kind = live.engine_of(record.placement.pool)
            engine = self._engines.get(kind)
            if engine is None:
                continue
            is_known = not engine.unknown([ref])
            if is_known and record.stop_requested:
                orders.append(stop_order(live, ref.job_id, self._writer.clock.now_ms()))
            elif not is_known and record.state is JobState.STARTING and not record.stop_requested:
                start = StartJob(job_id=ref.job_id, attempt=ref.attempt, placement=record.placement)
                orders.append(EngineOrder(engine=kind, order=start, spec=record.spec))
            elif not is_known:
                self._enqueue_reports([_lost(ref, self._writer.clock.now_ms())])
        self._executor.put(orders)

    def _save_halted_state(self, problem: str) -> None:
        """The checker rejected a decision: save what reproduces it, and notify the operator."""
        live = self._writer.live
        snapshot = live.snapshot(self._writer.clock.now_ms()).body
        location = self._options.save_fault(f"{problem}\n{snapshot}\n")
        self._options.notify(
            f"scheduling has stopped: {problem}. The state is saved in {location}; jobs keep running. "
            "Please report this, then restart 'bursar up' to resume scheduling."
        )

    def _enqueue_reports(
        self,
        reports: Sequence[EngineReport],
        settled: Callable[[Sequence[AttemptRef]], None] = lambda _refs: None,
    ) -> None:
        self._writer.inbox.put(RecordReports(reports=tuple(reports), settled=settled))

    def _stop_leading(self) -> None:
        for thread in (*self._report_threads.values(), *self._notice_threads):
            thread.close()
        self._report_threads.clear()
        self._notice_threads.clear()
        if self._executor is not None:
            self._executor.close()
            self._executor = None
        if self._writer.lead is not None:
            for engine in self._engines.values():
                engine.close()
            self._writer.lead.release()
            self._writer.lead = None


def _lost(ref: AttemptRef, now_ms: int) -> TasksEnded:
    return TasksEnded(
        job_id=ref.job_id,
        attempt=ref.attempt,
        at_ms=now_ms,
        exit=Exit(detail="it was gone when the control plane restarted"),
    )

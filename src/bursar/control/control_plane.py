"""The control plane as the API, the CLI and the tests see it: thread-safe, answers by futures.

One process leads and writes; others follow the log, answer questions, and take over when the leader dies.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from bursar.accounting.ledger.ledger import Ledger
from bursar.config.fleet.fleet_file import FleetFile
from bursar.control.engine_threads.order_executor import EngineOrder, OrderExecutor
from bursar.control.engine_threads.report_listener import ReportListener
from bursar.control.engine_threads.spot_notice_poller import SpotNoticePoller
from bursar.control.live.event_broadcast import EventBroadcast, Subscription
from bursar.control.live.live_state import LiveState
from bursar.control.live.transaction import Installation
from bursar.control.monotonic_clock import MonotonicClock
from bursar.control.queries.health import Health
from bursar.control.requests.fleet_requests import DeclareFleet
from bursar.control.requests.report_to_event import TakeReports, ignore
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
    Recorded,
    Store,
    StoreReader,
)

T = TypeVar("T")
FOLLOW_SECONDS = 0.25
TRY_LEAD_SECONDS = 2.0


THE_OPERATOR = Identity(
    user="operator",
    role=Role.ADMIN,
    tenant=MEMBER_OF_ALL,
    scopes=frozenset(Permission),
    token_id="",
)
"""Who starts the program: what is declared at the start is his."""


def _unkept(_text: str) -> str:
    return "nowhere"


def _nothing() -> None:
    """Nobody needs to know."""


def _unheard(_problem: str) -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneOptions:
    """What a control plane is told at its start."""

    address: str
    """Where this process answers, so that followers can point to it when it leads."""
    known_models: Collection[str]
    initial: FleetFile | None = None
    """Declared by the first leader of an empty log."""
    tell: Callable[[str], None] = field(default=_unheard)
    """Told in one backlog what an operator should know."""
    keep: Callable[[str], str] = field(default=_unkept)
    """Keeps a text that explains a fault of ours, and says where."""
    on_lead: Callable[[], None] = field(default=_nothing)
    """Called when this process has begun to lead."""
    notices: Sequence[InterruptionSource] = ()
    """Where providers announce that nodes will be taken away."""
    on_end: Callable[[], None] = field(default=_nothing)
    """Called when the writer has died: this process is of no use any more and should end."""


class ControlPlane:
    """``start`` begins in a thread of its own; ``close`` ends it and leaves everything running."""

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
        self._given_clock = clock
        self._board = EventBroadcast()
        self._writer = Writer(store, LiveState(), clock or MonotonicClock(), self._board)
        self._writer.installation = Installation(engines=engines, known_models=options.known_models)
        self._actor: OrderExecutor | None = None
        self._listeners: list[ReportListener | SpotNoticePoller] = []
        self._closing = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bursar-writer", daemon=True)
        self._broken: BaseException | None = None

    # -- life ------------------------------------------------------------------------------------

    def start(self, timeout_seconds: float = 60) -> None:
        """Begin; returns when the state is up to the log and questions can be answered."""
        self._thread.start()
        if not self._ready.wait(timeout_seconds):
            raise EngineFault("the control plane did not come up", retry_after_seconds=5)
        if self._broken is not None:
            raise self._broken

    def close(self) -> None:
        """Stop deciding and writing. What runs goes on running and is found again."""
        self._closing.set()
        self._writer.inbox.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    @property
    def is_broken(self) -> bool:
        """Whether the writer died of a fault of ours."""
        return self._broken is not None

    @property
    def is_leader(self) -> bool:
        return self._writer.lead is not None

    @property
    def leader_address(self) -> str | None:
        """Where the leader answers."""
        if self.is_leader:
            return self._options.address
        known = self.reader.leader()
        return known[1] if known is not None else None

    def engine_for(self, cluster: str) -> Engine | None:
        """What runs the jobs of a cluster, if it is here."""
        declared = self._writer.live.declared
        clusters = declared.fleet.clusters if declared is not None else ()
        kind = next((one.engine for one in clusters if one.name == cluster), None)
        return self._engines.get(kind) if kind is not None else None

    # -- what changes something ------------------------------------------------------------------

    def send(self, request: WriteRequest[T]) -> Future[T]:
        """Have a request committed; ``NotLeader`` when another process must do it."""
        if self.is_leader:
            self._writer.inbox.put(request)
        else:
            request.future.set_exception(NotLeader(self.leader_address))
        return request.future

    # -- what changes nothing --------------------------------------------------------------------

    def ask(self, question: Callable[[FleetState, int], T]) -> Future[T]:
        """Work something out on the state as it is now, in between two turns of the writer."""
        return self.ask_live(lambda live, now_ms: question(live.state, now_ms))

    def ask_books(self, question: Callable[[Ledger, FleetState, int], T]) -> Future[T]:
        """Read the ledger as it is now: copy out plain rows, and work on them in a thread of your own."""
        return self.ask_live(lambda live, now_ms: question(live.books.ledger, live.state, now_ms))

    def ask_live(self, question: Callable[[LiveState, int], T]) -> Future[T]:
        """Read state and books together, as they are now; copy what is given away."""
        asked = StateQuery(question)
        self._writer.inbox.put(asked)
        return asked.future

    def declaration(self) -> tuple[FleetFile, int] | None:
        """What is declared, and the name of that declaration."""
        declared = self._writer.live.declared
        if declared is None:
            return None
        file = FleetFile(fleet=declared.fleet, tenants=declared.tenants, policies=declared.policies)
        return file, declared.at_ms

    def follow(self) -> Subscription:
        """The log as it grows."""
        return self._board.follow()

    def health(self) -> Health:
        """How things are. Read from another thread: the numbers may be of slightly different moments."""
        writer, live = self._writer, self._writer.live
        known = self.reader.leader()
        state = live.state if live.is_declared else None
        return Health(
            is_leader=self.is_leader,
            epoch=writer.lead.epoch if writer.lead is not None else known[0] if known else 0,
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
        """What each engine cannot do just now: tell us what happened, or take an order."""
        unheard = {
            str(kind): f"its reports cannot be read: {one.fault}"
            for one in list(self._listeners)
            if isinstance(one, ReportListener) and one.fault
            for kind, engine in self._engines.items()
            if engine is one.engine
        }
        return unheard | (dict(self._actor.faults) if self._actor is not None else {})

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._follow_then_lead()
        except Exception as error:
            self._broken = error
            where = self._options.keep(traceback.format_exc())
            self._options.tell(
                f"the control plane stopped at event {self._writer.live.sequence}: {error} "
                f"(kept in {where}); what runs goes on, 'bursar up' finds it again"
            )
        finally:
            self._let_go()
            self._ready.set()
        if self._broken is not None:
            self._options.on_end()

    def _follow_then_lead(self) -> None:
        self._catch_up()
        while not self._closing.is_set():
            lead = self._store.try_lead(self._options.address)
            if lead is None:
                self._follow_for_a_while()
                continue
            self._writer.lead = lead
            try:
                self._begin_to_lead()
                self._options.on_lead()
                if self._ready.is_set():
                    self._options.tell("this process has taken the lead")
                self._ready.set()
                while not self._closing.is_set():
                    self._writer.turn()
                self._writer.keep_snapshot()
            except LeadershipLost:
                self._options.tell("another process has taken the lead; following it from now on")
            finally:
                self._let_go()

    def _follow_for_a_while(self) -> None:
        """Serve reads, stay up to date, and be ready to take over."""
        self._ready.set()
        until = time.monotonic() + TRY_LEAD_SECONDS
        while time.monotonic() < until and not self._closing.is_set():
            self._catch_up()
            requests, questions = self._writer.take(FOLLOW_SECONDS)
            for request in requests:
                request.future.set_exception(NotLeader(self.leader_address))
            for question in questions:
                self._writer.answer(question)

    def _catch_up(self) -> None:
        live = self._writer.live
        known = live.sequence
        seen = live.catch_up(self._store)
        first = live.sequence - len(seen) + 1 if known or seen else 0
        self._board.publish([Recorded(sequence=first + n, event=e) for n, e in enumerate(seen)])

    # -- taking over -----------------------------------------------------------------------------

    def _begin_to_lead(self) -> None:
        self._catch_up()
        live, writer = self._writer.live, self._writer
        if self._given_clock is None:
            writer.clock = MonotonicClock(not_before_ms=live.last_event_ms)
        actor = OrderExecutor(self._engines, self._store, self._hear, writer.clock.now_ms)
        self._actor = actor
        writer.act = actor.put
        writer.recover = self._recover
        writer.broke = self._keep_picture
        if not live.is_declared and self._options.initial is not None:
            writer.inbox.put(DeclareFleet(who=THE_OPERATOR, declared=self._options.initial))
        for engine in self._distinct_engines():
            engine.open(live.live_attempts())
        self._recover()
        actor.start()
        for engine in self._distinct_engines():
            self._listeners.append(
                ReportListener(engine, partial(self._hear, settled=engine.settled))
            )
        self._listeners += [SpotNoticePoller(one, self._hear) for one in self._options.notices]
        for listener in self._listeners:
            listener.start()
        writer.decide_soon()

    def _distinct_engines(self) -> list[Engine]:
        """Each once."""
        return list({id(engine): engine for engine in self._engines.values()}.values())

    def _recover(self) -> None:
        """Hand the engines again what was committed but may never have reached them."""
        live = self._writer.live
        orders: list[EngineOrder] = []
        if not live.is_declared or self._actor is None:
            return
        state = live.state
        for ref in live.live_attempts():
            record = state.jobs[ref.job_id]
            assert record.placement is not None
            kind = live.engine_of(record.placement.pool)
            engine = self._engines.get(kind)
            if engine is None:
                continue
            known = not engine.unknown([ref])
            if known and record.stop_requested:
                orders.append(stop_order(live, ref.job_id, self._writer.clock.now_ms()))
            elif not known and record.state is JobState.STARTING and not record.stop_requested:
                start = StartJob(job_id=ref.job_id, attempt=ref.attempt, placement=record.placement)
                orders.append(EngineOrder(engine=kind, order=start, spec=record.spec))
            elif not known:
                self._hear([_lost(ref, self._writer.clock.now_ms())])
        self._actor.put(orders)

    def _keep_picture(self, problem: str) -> None:
        """The checker refused a decision: keep what is needed to repeat it, and tell."""
        live = self._writer.live
        picture = live.snapshot(self._writer.clock.now_ms()).body
        where = self._options.keep(f"{problem}\n{picture}\n")
        self._options.tell(
            f"no decisions are made any more: {problem}. The state is kept in {where}; "
            "what runs goes on. Please report it, and restart to go on."
        )

    def _hear(
        self,
        reports: Sequence[EngineReport],
        settled: Callable[[Sequence[AttemptRef]], None] = ignore,
    ) -> None:
        self._writer.inbox.put(TakeReports(reports=tuple(reports), settled=settled))

    def _let_go(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if self._actor is not None:
            self._actor.close()
            self._actor = None
        if self._writer.lead is not None:
            for engine in self._distinct_engines():
                engine.close()
            self._writer.lead.release()
            self._writer.lead = None


def _lost(ref: AttemptRef, now_ms: int) -> TasksEnded:
    return TasksEnded(
        job_id=ref.job_id,
        attempt=ref.attempt,
        at_ms=now_ms,
        exit=Exit(detail="no trace of it was left when the control plane came back"),
    )

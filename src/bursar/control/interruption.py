"""Interruptions: what providers announce, and what an operator brings about to see what happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from bursar.control.group import Group
from bursar.control.loop import engine_of
from bursar.control.requests import Answer, did
from bursar.model.errors import EngineFault, UserError
from bursar.model.fleet import EngineKind
from bursar.model.identity import Identity
from bursar.model.lifecycle import LIVE
from bursar.model.report import Report
from bursar.ports import Engine, Interruptible, InterruptionSource

POLL_SECONDS = 5.0
"""Providers advise to ask at least so often: the shortest notice is half a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """How a node goes: announced so long before (0: not at all), and away for so long."""

    notice_ms: int
    absence_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """Which node goes, from when on, and when it is back."""

    job_id: str
    node: str
    lost_at_ms: int
    back_at_ms: int


@dataclass(slots=True, kw_only=True)
class InterruptJob:
    """Take the first node of a running job away, as a provider would."""

    who: Identity
    job_id: str
    terms: Interruption
    engines: Mapping[EngineKind, Engine]
    future: Future[Interrupted] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Group) -> Answer:
        record = group.state.jobs.get(self.job_id)
        if record is None or record.state not in LIVE or record.placement is None:
            state = "over" if record is None else record.state
            raise UserError(
                f"{self.job_id} is {state}: there is nothing to interrupt.",
                fix="Name a job that runs; 'bursar status --state running' lists them.",
                code="not-running",
            )
        kind = engine_of(group.state, record.placement.pool)
        engine: object = self.engines.get(kind)
        if not isinstance(engine, Interruptible):
            raise UserError(
                f"{self.job_id} runs on the {kind} engine, whose nodes are not ours to take away.",
                fix="Try it on virtual nodes: a cluster with 'engine: local'.",
                code="cannot-interrupt",
            )
        taker, terms = engine, self.terms
        node = min(task.node for task in record.placement.tasks)
        lost_at_ms = group.now_ms + terms.notice_ms
        group.audit.append(did(self.who, "JobInterrupted", self.job_id, group.now_ms))

        def take_away() -> Interrupted:
            taker.interrupt(node, terms.notice_ms, terms.absence_ms)
            return Interrupted(
                job_id=self.job_id,
                node=node,
                lost_at_ms=lost_at_ms,
                back_at_ms=lost_at_ms + terms.absence_ms,
            )

        return take_away


class NoticeWatch:
    """A thread that asks one provider again and again, and passes on what it says."""

    def __init__(
        self, source: InterruptionSource, report: Callable[[Iterable[Report]], None]
    ) -> None:
        self._source = source
        self._report = report
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bursar-notices", daemon=True)
        self.fault = ""
        """Why it could not be asked the last time; empty when it could."""

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                found = self._source.poll()
                self.fault = ""
            except EngineFault as fault:
                self.fault = str(fault)
                found = ()
            if found:
                self._report(found)
            self._closing.wait(POLL_SECONDS)

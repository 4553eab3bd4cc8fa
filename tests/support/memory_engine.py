"""An engine without processes: a test ends the attempts, or they end at once.

Like real processes it outlives the control planes that use it. It raises an error if two attempts of one job
would run at the same time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from bursar.model.engine_report import EngineReport, TasksEnded
from bursar.model.errors import BrokenInvariant, EngineFault
from bursar.model.event import AttemptStarted
from bursar.model.fleet.gpu import Layout
from bursar.model.jobs.attempt import Exit
from bursar.ports import AttemptRef, LogFile, StartOrder


class MemoryEngine:
    """``ends_at_once`` lets every attempt succeed as soon as it is started."""

    def __init__(self, *, ends_at_once: bool = False) -> None:
        self.ends_at_once = ends_at_once
        self.running: dict[AttemptRef, StartOrder] = {}
        self.started: list[AttemptRef] = []
        self.stopped: list[AttemptRef] = []
        self.cuts: list[tuple[str, int, Layout]] = []
        self.fails_to_start = 0
        self.ignores_stops = False
        self._over: dict[AttemptRef, TasksEnded] = {}
        self._reports: list[EngineReport] = []
        self._changed = threading.Condition()

    # -- what tests do ---------------------------------------------------------------------------

    def end(self, job_id: str, code: int | None = 0, signal: int | None = None) -> None:
        """Ends the live attempt of a job."""
        with self._changed:
            ref = next(ref for ref in self.running if ref.job_id == job_id)
            self._end(ref, Exit(code=code, signal=signal))

    def report(self, *reports: EngineReport) -> None:
        """Sends reports, which need not be true."""
        with self._changed:
            self._reports += reports
            self._changed.notify_all()

    def _end(self, ref: AttemptRef, how: Exit) -> None:
        del self.running[ref]
        report = TasksEnded(job_id=ref.job_id, attempt=ref.attempt, at_ms=_now_ms(), exit=how)
        self._over[ref] = report
        self._reports.append(report)
        self._changed.notify_all()

    # -- the engine ------------------------------------------------------------------------------

    def open(self, live: Sequence[AttemptRef]) -> None:
        """Repeats the reports that were not confirmed."""
        with self._changed:
            wanted = set(live)
            self._reports = [one for ref, one in self._over.items() if ref in wanted]
            self._reports += [_started(ref) for ref in self.running if ref in wanted]

    def unknown(self, live: Sequence[AttemptRef]) -> tuple[AttemptRef, ...]:
        with self._changed:
            return tuple(ref for ref in live if ref not in self.running and ref not in self._over)

    def start(self, order: StartOrder) -> None:
        with self._changed:
            if self.fails_to_start:
                self.fails_to_start -= 1
                raise EngineFault("no processes today", retry_after_seconds=0.01)
            if order.ref in self.running or order.ref in self._over:
                return
            others = [ref for ref in self.running if ref.job_id == order.ref.job_id]
            if others:
                raise BrokenInvariant(f"{order.ref} next to {others}")
            self.running[order.ref] = order
            self.started.append(order.ref)
            self._reports.append(_started(order.ref))
            if self.ends_at_once:
                self._end(order.ref, Exit(code=0))
            self._changed.notify_all()

    def stop(self, ref: AttemptRef, grace_seconds: int) -> None:
        with self._changed:
            self.stopped.append(ref)
            if ref in self.running and not self.ignores_stops:
                self._end(ref, Exit(signal=15))
            elif ref not in self.running and ref not in self._over:
                gone = Exit(detail="it was not there")
                report = TasksEnded(
                    job_id=ref.job_id, attempt=ref.attempt, at_ms=_now_ms(), exit=gone
                )
                self._over[ref] = report
                self._reports.append(report)
                self._changed.notify_all()

    def partition(self, node: str, gpu: int, layout: Layout) -> None:
        self.cuts.append((node, gpu, layout))

    def reports(self, timeout_seconds: float) -> Sequence[EngineReport]:
        with self._changed:
            if not self._reports:
                self._changed.wait(timeout_seconds)
            found, self._reports = self._reports, []
            return found

    def settled(self, refs: Iterable[AttemptRef]) -> None:
        with self._changed:
            for ref in refs:
                self._over.pop(ref, None)

    def logs(self, ref: AttemptRef) -> Sequence[LogFile]:
        return ()

    def close(self) -> None:
        """Releases nothing."""


def _started(ref: AttemptRef) -> AttemptStarted:
    return AttemptStarted(job_id=ref.job_id, attempt=ref.attempt, at_ms=_now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

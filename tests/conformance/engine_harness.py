"""Engines under test, by name. A new engine adds a harness here and must pass the whole suite."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from bursar.engines.local.engine import LocalEngine
from bursar.engines.local.settings import LocalSettings
from bursar.engines.slurm.commands.commands import Commands
from bursar.engines.slurm.driven.engine import SlurmEngine
from bursar.engines.slurm.driven.settings import SlurmSettings
from bursar.model.engine_report import EngineReport, TasksEnded
from bursar.model.event import AttemptStarted
from bursar.model.jobs.attempt import Exit
from bursar.ports import AttemptRef, Engine
from tests.support.shared_slurm_lab import SHARED_LAB, needs_slurm
from tests.support.slurm_lab import Lab

TIMEOUT_SECONDS = 20.0


def until(
    what: str, condition: Callable[[], bool], timeout_seconds: float = TIMEOUT_SECONDS
) -> None:
    """Poll a condition; fail with ``what`` after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_seconds:g} s: {what}"
        time.sleep(0.01)


class Listener:
    """Receives an engine's reports and stores them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.received: list[EngineReport] = []

    def listen(self, seconds: float = 0.0) -> None:
        self.received += self.engine.reports(seconds)

    def count(self, kind: type[EngineReport], ref: AttemptRef) -> int:
        return len(self._of(kind, ref))

    def started(self, ref: AttemptRef) -> None:
        """Wait for the report of the start."""
        self._wait(AttemptStarted, ref)

    def ended(self, ref: AttemptRef) -> Exit:
        """Wait for the report of the end; returns the exit."""
        self._wait(TasksEnded, ref)
        report = self._of(TasksEnded, ref)[-1]
        assert isinstance(report, TasksEnded)
        return report.exit

    def _wait(self, kind: type[EngineReport], ref: AttemptRef) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not self._of(kind, ref):
            assert time.monotonic() < deadline, (
                f"no {kind.__name__} of {ref}; received {self.received}"
            )
            self.listen(0.2)

    def _of(self, kind: type[EngineReport], ref: AttemptRef) -> list[EngineReport]:
        return [
            report
            for report in self.received
            if isinstance(report, kind)
            and isinstance(report, AttemptStarted | TasksEnded)
            and (report.job_id, report.attempt) == (ref.job_id, ref.attempt)
        ]


class EngineHarness(Protocol):
    """An engine with everything that outlives a control plane."""

    def open(self, live: Sequence[AttemptRef] = ()) -> Listener:
        """Open a new engine on the same state, as a new control plane does."""


class LocalHarness:
    """The local engine in its own folder."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.engines: list[LocalEngine] = []

    def open(self, live: Sequence[AttemptRef] = ()) -> Listener:
        return self.open_with(LocalSettings(state=self.state, supervisor_linger_seconds=0.3), live)

    def open_with(self, settings: LocalSettings, live: Sequence[AttemptRef] = ()) -> Listener:
        engine = LocalEngine(settings)
        self.engines.append(engine)
        engine.open(live)
        return Listener(engine)

    def supervisor_pid(self) -> int:
        """Process id of the supervisor that serves this folder now."""
        client = self.engines[-1]._open.supervisor
        client.ensure_connected()
        return client.supervisor_pid

    def clear(self) -> None:
        """Stop all attempts: the newest engine is opened without live attempts."""
        for engine in self.engines:
            engine.close()
        last = self.open()
        pid = self.supervisor_pid()
        live = self.state / "engine" / "live"
        for entry in sorted(live.iterdir()):
            job_id, _, attempt = entry.name.rpartition("@")
            last.engine.stop(AttemptRef(job_id=job_id, attempt=int(attempt)), 0)
            last.ended(AttemptRef(job_id=job_id, attempt=int(attempt)))
        last.engine.close()
        os.kill(pid, signal.SIGTERM)


@contextmanager
def local_harness(folder: Path) -> Iterator[LocalHarness]:
    harness = LocalHarness(folder / "state")
    try:
        yield harness
    finally:
        harness.clear()


class SlurmHarness:
    """The Slurm engine in its own folder, on the cluster that all tests of a run share."""

    def __init__(self, state: Path, lab: Lab) -> None:
        self.state = state
        self.lab = lab
        self.engines: list[SlurmEngine] = []

    def settings(self) -> SlurmSettings:
        return SlurmSettings(
            state=self.state,
            commands=Commands(environment=self.lab.environment()),
            rest_socket=self.lab.rest_socket,
            nodes=(),
            poll_seconds=0.5,
        )

    def open(self, live: Sequence[AttemptRef] = ()) -> Listener:
        return self.open_with(self.settings(), live)

    def open_with(self, settings: SlurmSettings, live: Sequence[AttemptRef] = ()) -> Listener:
        engine = SlurmEngine(settings)
        self.engines.append(engine)
        engine.open(live)
        return Listener(engine)

    def clear(self) -> None:
        """Stop all attempts: the newest engine is opened without live attempts."""
        for engine in self.engines:
            engine.close()
        last = self.open()
        live = self.state / "slurm" / "live"
        for entry in sorted(live.iterdir()):
            job_id, _, attempt = entry.name.rpartition("@")
            last.engine.stop(AttemptRef(job_id=job_id, attempt=int(attempt)), 0)

        def all_ended() -> bool:
            last.listen(0.1)
            return not list(live.iterdir())

        until("all attempts have ended", all_ended)
        last.engine.close()


@contextmanager
def slurm_harness(folder: Path) -> Iterator[SlurmHarness]:
    harness = SlurmHarness(folder / "state", SHARED_LAB.hold())
    try:
        yield harness
    finally:
        harness.clear()


ENGINES = {"local": local_harness, "slurm": slurm_harness}
NEED_REAL_SOFTWARE = {"slurm": (pytest.mark.real, needs_slurm)}

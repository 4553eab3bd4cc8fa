"""Engines to test, by name. One that joins adds a stand here and must pass the whole suite."""

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
from bursar.model.engine_report import EngineReport, TasksEnded, TasksStarted
from bursar.model.jobs.attempt import Exit
from bursar.ports import AttemptRef, Engine
from tests.support.shared_slurm_lab import SHARED_LAB, needs_slurm
from tests.support.slurm_lab import Lab

PATIENCE_SECONDS = 20.0


def until(what: str, condition: Callable[[], bool], patience: float = PATIENCE_SECONDS) -> None:
    """Look often, wait no longer than needed, and say what did not happen."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what}"
        time.sleep(0.01)


class Listener:
    """Takes reports and remembers them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.heard: list[EngineReport] = []

    def listen(self, seconds: float = 0.0) -> None:
        self.heard += self.engine.reports(seconds)

    def count(self, kind: type[EngineReport], ref: AttemptRef) -> int:
        return len(self._of(kind, ref))

    def started(self, ref: AttemptRef) -> None:
        """Wait until it is reported."""
        self._wait(TasksStarted, ref)

    def ended(self, ref: AttemptRef) -> Exit:
        """Wait until it is reported; how it ended."""
        self._wait(TasksEnded, ref)
        report = self._of(TasksEnded, ref)[-1]
        assert isinstance(report, TasksEnded)
        return report.exit

    def _wait(self, kind: type[EngineReport], ref: AttemptRef) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._of(kind, ref):
            assert time.monotonic() < deadline, f"no {kind.__name__} of {ref}; heard {self.heard}"
            self.listen(0.2)

    def _of(self, kind: type[EngineReport], ref: AttemptRef) -> list[EngineReport]:
        return [
            report
            for report in self.heard
            if isinstance(report, kind)
            and isinstance(report, TasksStarted | TasksEnded)
            and (report.job_id, report.attempt) == (ref.job_id, ref.attempt)
        ]


class Stand(Protocol):
    """An engine with everything around it that outlives a control plane."""

    def open(self, live: Sequence[AttemptRef] = ()) -> Listener:
        """A new control plane takes over, whatever became of the one before."""


class LocalStand:
    """The local engine in a folder of its own."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.engines: list[LocalEngine] = []

    def open(self, live: Sequence[AttemptRef] = ()) -> Listener:
        return self.open_with(LocalSettings(state=self.state, warden_linger_seconds=0.3), live)

    def open_with(self, settings: LocalSettings, live: Sequence[AttemptRef] = ()) -> Listener:
        engine = LocalEngine(settings)
        self.engines.append(engine)
        engine.open(live)
        return Listener(engine)

    def warden_pid(self) -> int:
        """Of the warden that serves this folder now."""
        link = self.engines[-1]._open.supervisor
        link.keep_up()
        return link.warden_pid

    def clear(self) -> None:
        """End what a test left running: the newest engine knows of no live attempt, so all must go."""
        for engine in self.engines:
            engine.close()
        last = self.open()
        pid = self.warden_pid()
        live = self.state / "engine" / "live"
        for entry in sorted(live.iterdir()):
            job_id, _, attempt = entry.name.rpartition("@")
            last.engine.stop(AttemptRef(job_id=job_id, attempt=int(attempt)), 0)
            last.ended(AttemptRef(job_id=job_id, attempt=int(attempt)))
        last.engine.close()
        os.kill(pid, signal.SIGTERM)


@contextmanager
def local_stand(folder: Path) -> Iterator[LocalStand]:
    stand = LocalStand(folder / "state")
    try:
        yield stand
    finally:
        stand.clear()


class SlurmStand:
    """The Slurm engine in a folder of its own, on the cluster that all tests of a run share."""

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
        """End what a test left running: the newest engine knows of no live attempt, so all must go."""
        for engine in self.engines:
            engine.close()
        last = self.open()
        live = self.state / "slurm" / "live"
        for entry in sorted(live.iterdir()):
            job_id, _, attempt = entry.name.rpartition("@")
            last.engine.stop(AttemptRef(job_id=job_id, attempt=int(attempt)), 0)

        def all_gone() -> bool:
            last.listen(0.1)
            return not list(live.iterdir())

        until("what a test left running is gone", all_gone)
        last.engine.close()


@contextmanager
def slurm_stand(folder: Path) -> Iterator[SlurmStand]:
    stand = SlurmStand(folder / "state", SHARED_LAB.hold())
    try:
        yield stand
    finally:
        stand.clear()


ENGINES = {"local": local_stand, "slurm": slurm_stand}
NEED_A_REAL_PART = {"slurm": (pytest.mark.real, needs_slurm)}

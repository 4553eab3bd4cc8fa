"""Several runs in parallel processes.

Processes are spawned, not forked: a request contains all that a run needs. A terminal sends an interrupt
to every process of the group, so child processes ignore it. They stop between two steps when the parent
sends a message, and still send their outcome so far.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic
from typing import Protocol

from bursar.model.errors import BrokenInvariant, UserError
from bursar.simulate.runs.run import prepare
from bursar.simulate.runs.run_outcome import RunOutcome
from bursar.simulate.runs.run_request import RunRequest
from bursar.simulate.runs.run_to_end import RunProgress

SECONDS_BETWEEN_REPORTS = 0.2
STOP = "stop"


class RunsWatcher(Protocol):
    """Follows the progress of several runs."""

    def saw(self, progress: Sequence[RunProgress | None]) -> bool:
        """Receives the progress of each run, None before its first report; true stops all runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunRejected:
    """A ``UserError`` sent between processes."""

    problem: str
    fix: str
    code: str


def run_side_by_side(
    requests: Sequence[RunRequest],
    watcher: RunsWatcher | None = None,
    *,
    processes: int | None = None,
) -> tuple[RunOutcome, ...]:
    """The outcomes in the order of the requests, without runs that were stopped before their start."""
    runs = _Processes(requests, processes or os.cpu_count() or 1)
    try:
        while runs.is_busy:
            runs.advance()
            if watcher is not None and watcher.saw(runs.progress):
                runs.stop()
        return tuple(
            outcome for _, outcome in sorted(runs.outcomes.items(), key=lambda one: one[0])
        )
    finally:
        runs.terminate()


class _Processes:
    """The running processes, and their reports so far."""

    def __init__(self, requests: Sequence[RunRequest], processes: int) -> None:
        self._requests = requests
        self._queued = deque(range(len(requests)))
        self._processes = processes
        self._running: dict[Connection, tuple[int, SpawnProcess]] = {}
        self.progress: list[RunProgress | None] = [None] * len(requests)
        self.outcomes: dict[int, RunOutcome] = {}

    @property
    def is_busy(self) -> bool:
        return bool(self._queued or self._running)

    def advance(self) -> None:
        """Starts queued runs while processes are free, and receives reports."""
        while self._queued and len(self._running) < self._processes:
            self._begin(self._queued.popleft())
        for one in wait(list(self._running), timeout=SECONDS_BETWEEN_REPORTS):
            assert isinstance(one, Connection)
            self._receive(one)

    def stop(self) -> None:
        """Asks running processes for their outcome so far; starts no more."""
        self._queued.clear()
        for connection in self._running:
            try:
                connection.send(STOP)
            except OSError:
                continue

    def terminate(self) -> None:
        """Ends all processes, also after an error."""
        for connection, (_, process) in self._running.items():
            process.terminate()
            process.join()
            connection.close()
        self._running.clear()

    def _begin(self, number: int) -> None:
        parent_end, child_end = get_context("spawn").Pipe()
        process = get_context("spawn").Process(
            target=_run_child, args=(self._requests[number], child_end), daemon=True
        )
        with _interrupts_ignored():
            process.start()
        child_end.close()
        self._running[parent_end] = number, process

    def _receive(self, connection: Connection) -> None:
        number, process = self._running[connection]
        try:
            message = connection.recv()
        except EOFError:
            raise BrokenInvariant(f"the run {self._requests[number].name} gave no result") from None
        if isinstance(message, RunProgress):
            self.progress[number] = message
            return
        if isinstance(message, _RunRejected):
            raise UserError(message.problem, fix=message.fix, code=message.code)
        self.outcomes[number] = message
        del self._running[connection]
        connection.close()
        process.join()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A child process inherits the signals that its parent ignores."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# -- in the child process --------------------------------------------------------------------------


class _ProgressSender:
    """Sends progress to the parent, and receives its request to stop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._next_s = 0.0

    def saw(self, progress: RunProgress) -> bool:
        if self._connection.poll():
            return True
        if monotonic() >= self._next_s:
            self._connection.send(progress)
            self._next_s = monotonic() + SECONDS_BETWEEN_REPORTS
        return False


def _run_child(request: RunRequest, connection: Connection) -> None:
    try:
        connection.send(prepare(request).carry_out(_ProgressSender(connection)))
    except UserError as error:
        connection.send(_RunRejected(problem=error.problem, fix=error.fix, code=error.code))

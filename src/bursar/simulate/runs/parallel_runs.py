"""Several runs at once, each in a process of its own, and their outcomes in the order of the requests.

Processes are spawned, not forked: what a run needs travels in its request. A terminal's interrupt goes
to every process of the group, so the children ignore it. They stop when the parent says so, between
two steps, and still send what they have.
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
    """Whoever looks on while several runs go."""

    def saw(self, progress: Sequence[RunProgress | None]) -> bool:
        """Told now and then how far each run is, None before its first word; true asks all to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """A ``UserError`` on its way between processes."""

    problem: str
    fix: str
    code: str


def run_side_by_side(
    requests: Sequence[RunRequest],
    board: RunsWatcher | None = None,
    *,
    processes: int | None = None,
) -> tuple[RunOutcome, ...]:
    """The outcomes in the order of the requests. Runs that had not begun when all were stopped are
    left out."""
    crew = _Crew(requests, processes or os.cpu_count() or 1)
    try:
        while crew.is_busy:
            crew.advance()
            if board is not None and board.saw(crew.progress):
                crew.stop()
        return tuple(
            outcome for _, outcome in sorted(crew.outcomes.items(), key=lambda one: one[0])
        )
    finally:
        crew.dismiss()


class _Crew:
    """The processes at work, and what they have said so far."""

    def __init__(self, requests: Sequence[RunRequest], processes: int) -> None:
        self._requests = requests
        self._to_come = deque(range(len(requests)))
        self._processes = processes
        self._at_work: dict[Connection, tuple[int, SpawnProcess]] = {}
        self.progress: list[RunProgress | None] = [None] * len(requests)
        self.outcomes: dict[int, RunOutcome] = {}

    @property
    def is_busy(self) -> bool:
        return bool(self._to_come or self._at_work)

    def advance(self) -> None:
        """Begin what can begin, and hear what there is to hear."""
        while self._to_come and len(self._at_work) < self._processes:
            self._begin(self._to_come.popleft())
        for one in wait(list(self._at_work), timeout=SECONDS_BETWEEN_REPORTS):
            assert isinstance(one, Connection)
            self._hear(one)

    def stop(self) -> None:
        """Ask everyone for what they have; begin nothing more."""
        self._to_come.clear()
        for connection in self._at_work:
            try:
                connection.send(STOP)
            except OSError:
                continue

    def dismiss(self) -> None:
        """Leave no process behind, whatever happened."""
        for connection, (_, process) in self._at_work.items():
            process.terminate()
            process.join()
            connection.close()
        self._at_work.clear()

    def _begin(self, number: int) -> None:
        ours, theirs = get_context("spawn").Pipe()
        process = get_context("spawn").Process(
            target=_work, args=(self._requests[number], theirs), daemon=True
        )
        with _interrupts_ignored():
            process.start()
        theirs.close()
        self._at_work[ours] = number, process

    def _hear(self, connection: Connection) -> None:
        number, process = self._at_work[connection]
        try:
            word = connection.recv()
        except EOFError:
            raise BrokenInvariant(f"the run {self._requests[number].name} gave no result") from None
        if isinstance(word, RunProgress):
            self.progress[number] = word
            return
        if isinstance(word, _Refusal):
            raise UserError(word.problem, fix=word.fix, code=word.code)
        self.outcomes[number] = word
        del self._at_work[connection]
        connection.close()
        process.join()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A child is born with what its parent ignores."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# -- in the child ----------------------------------------------------------------------------------


class _Wire:
    """Tells the parent how far the run is, and hears when to stop."""

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


def _work(request: RunRequest, connection: Connection) -> None:
    try:
        connection.send(prepare(request).carry_out(_Wire(connection)))
    except UserError as error:
        connection.send(_Refusal(problem=error.problem, fix=error.fix, code=error.code))

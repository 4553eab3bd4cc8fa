"""A small control plane for crash tests: writes each order to a journal before sending it.

``python -m tests.engines.local.crash_control_plane STATE JOURNAL RUNS JOBS`` is started, killed at random
times and started again until it exits with 0, when all jobs are over.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bursar.engines.local.engine import LocalEngine
from bursar.engines.local.settings import LocalSettings
from bursar.model.engine_report import TasksEnded
from bursar.model.errors import EngineFault
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import AttemptRef, StartOrder
from tests.conformance.engine_orders import order, ref, tasks_on

MOST_RUNNING = 6


class Journal:
    """Lines ``assigned j-3`` and ``ended j-3 0``; a torn last line was never written."""

    def __init__(self, path: Path) -> None:
        text = path.read_text() if path.exists() else ""
        complete = text[: text.rfind("\n") + 1]
        self.assigned: list[str] = []
        self.ended: dict[str, list[str]] = {}
        for line in complete.splitlines():
            what, job_id, *rest = line.split(" ", 2)
            if what == "assigned":
                self.assigned.append(job_id)
            else:
                self.ended.setdefault(job_id, []).append(" ".join(rest))
        self._fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        os.ftruncate(self._fd, len(complete))

    def write(self, line: str) -> None:
        os.write(self._fd, f"{line}\n".encode())

    @property
    def live(self) -> list[AttemptRef]:
        return [ref(job_id) for job_id in self.assigned if job_id not in self.ended]


def tasks_of(job_id: str) -> int:
    """Every fourth job is a gang of two."""
    return 2 if int(job_id.removeprefix("j-")) % 4 == 0 else 1


def code_of(job_id: str) -> int:
    """Gangs succeed: a failing gang may end before all of its tasks have written their line."""
    return int(job_id.removeprefix("j-")) % 3 if tasks_of(job_id) == 1 else 0


def order_of(job_id: str, runs: str) -> StartOrder:
    """A job that appends a line to its own file, then runs for some hundredths of a second."""
    number = int(job_id.removeprefix("j-"))
    script = f'echo "$RANK" >> {runs}/{job_id}\nsleep 0.0{number % 7}\nexit {code_of(job_id)}\n'
    tasks = tasks_on("a", "b")[: tasks_of(job_id)]
    return order(job_id, RunSpec(run=script, grace_seconds=1), tasks=tasks)


def start(engine: LocalEngine, wanted: StartOrder) -> None:
    """Send an order, and retry it after a fault as the port requires."""
    while True:
        try:
            engine.start(wanted)
            return
        except EngineFault:
            continue


def control(state: Path, journal: Journal, runs: str, jobs: int) -> None:
    engine = LocalEngine(LocalSettings(state=state, supervisor_linger_seconds=0.3))
    engine.open(journal.live)
    for lost in engine.unknown(journal.live):
        start(engine, order_of(lost.job_id, runs))
    while len(journal.ended) < jobs:
        while len(journal.live) < MOST_RUNNING and len(journal.assigned) < jobs:
            job_id = f"j-{len(journal.assigned)}"
            journal.write(f"assigned {job_id}")
            journal.assigned.append(job_id)
            start(engine, order_of(job_id, runs))
        for report in engine.reports(5.0):
            if isinstance(report, TasksEnded) and report.job_id not in journal.ended:
                ended = f"{report.exit.code} {report.exit.detail}"
                journal.write(f"ended {report.job_id} {ended}")
                journal.ended[report.job_id] = [ended]
                engine.settled([ref(report.job_id)])
    engine.close()


if __name__ == "__main__":
    control(Path(sys.argv[1]), Journal(Path(sys.argv[2])), sys.argv[3], int(sys.argv[4]))

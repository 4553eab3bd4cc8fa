"""Runs many small tasks in parallel processes; results survive an early stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import Protocol

from bursar.simulate.spot_study.cells import StudyCell

POLL_SECONDS = 0.2


class SpotTask(Protocol):
    """A picklable task that returns rows."""

    def run(self) -> list[StudyCell]: ...


class SpotWatcher(Protocol):
    """A progress callback; a true result requests a stop."""

    def saw_tasks(self, done: int, in_all: int) -> bool: ...


def run_tasks(
    tasks: Sequence[SpotTask], watcher: SpotWatcher | None = None, *, processes: int | None = None
) -> tuple[list[StudyCell], bool]:
    """Returns the rows in the order of the tasks, and whether all tasks finished."""
    workers = min(processes or os.cpu_count() or 1, len(tasks))
    if workers <= 1:
        return _run_sequentially(tasks, watcher)
    rows_by_task: dict[int, list[StudyCell]] = {}
    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_ignore_interrupts
    )
    try:
        pending: dict[Future[list[StudyCell]], int] = {
            pool.submit(task.run): number for number, task in enumerate(tasks)
        }
        while pending:
            done, _ = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
            for future in done:
                rows_by_task[pending.pop(future)] = future.result()
            if watcher is not None and watcher.saw_tasks(len(rows_by_task), len(tasks)):
                break
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    rows = [cell for number in sorted(rows_by_task) for cell in rows_by_task[number]]
    return rows, len(rows_by_task) == len(tasks)


def _run_sequentially(
    tasks: Sequence[SpotTask], watcher: SpotWatcher | None
) -> tuple[list[StudyCell], bool]:
    rows: list[StudyCell] = []
    for number, task in enumerate(tasks):
        if watcher is not None and watcher.saw_tasks(number, len(tasks)):
            return rows, False
        rows += task.run()
    return rows, True


def _ignore_interrupts() -> None:
    """Ctrl-C in a terminal reaches every process; only the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

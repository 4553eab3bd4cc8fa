"""Many small tasks over the processors; what is done is kept when the user wants to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import Protocol

from bursar.simulate.spot_study.cells import StudyCell

SECONDS_BETWEEN_LOOKS = 0.2


class SpotTask(Protocol):
    """Something that can be sent to another process and gives rows there."""

    def run(self) -> list[StudyCell]: ...


class SpotWatcher(Protocol):
    """Whoever looks on; true asks to stop."""

    def saw_tasks(self, done: int, in_all: int) -> bool: ...


def carry_out(
    tasks: Sequence[SpotTask], watcher: SpotWatcher | None = None, *, processes: int | None = None
) -> tuple[list[StudyCell], bool]:
    """The rows in the order of the tasks, and whether all tasks were done."""
    workers = min(processes or os.cpu_count() or 1, len(tasks))
    if workers <= 1:
        return _one_by_one(tasks, watcher)
    found: dict[int, list[StudyCell]] = {}
    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_ignore_interrupts
    )
    try:
        waiting: dict[Future[list[StudyCell]], int] = {
            pool.submit(task.run): number for number, task in enumerate(tasks)
        }
        while waiting:
            done, _ = wait(waiting, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
            for future in done:
                found[waiting.pop(future)] = future.result()
            if watcher is not None and watcher.saw_tasks(len(found), len(tasks)):
                break
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    rows = [cell for number in sorted(found) for cell in found[number]]
    return rows, len(found) == len(tasks)


def _one_by_one(
    tasks: Sequence[SpotTask], watcher: SpotWatcher | None
) -> tuple[list[StudyCell], bool]:
    rows: list[StudyCell] = []
    for number, task in enumerate(tasks):
        if watcher is not None and watcher.saw_tasks(number, len(tasks)):
            return rows, False
        rows += task.run()
    return rows, True


def _ignore_interrupts() -> None:
    """A terminal's Ctrl-C goes to every process; only the first one decides what to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

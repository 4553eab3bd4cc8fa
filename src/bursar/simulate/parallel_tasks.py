"""Tasks in parallel processes, with their progress; results survive an early stop.

Processes are spawned, not forked: a task contains all that it needs. A terminal sends an interrupt to
every process of the group, so child processes ignore it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from threading import Thread
from time import monotonic
from typing import TypeVar

from bursar.model.errors import BrokenInvariant

SECONDS_BETWEEN_REPORTS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many jobs of a run, or tasks of a study, are over."""

    jobs_over: int
    jobs_in_all: int | None


Watch = Callable[[Sequence[Progress | None]], bool]
"""Receives the progress of each task, None before its first report; true asks all to stop."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_in_parallel(
    function: Callable[[Item, Watch], Result],
    items: Sequence[Item],
    watch: Watch,
    processes: int | None = None,
) -> list[Result]:
    """The results in the order of the items, without those that had not begun when all were stopped.

    ``function`` is called with an item and a watcher, and stops early when that returns true.
    """
    workers = min(processes or os.cpu_count() or 1, len(items))
    progress: list[Progress | None] = [None] * len(items)
    if workers <= 1:
        return list(_one_by_one(function, items, watch, progress))
    context = get_context("spawn")
    stop, reports = context.Event(), context.SimpleQueue()
    results: dict[int, Result] = {}
    with ProcessPoolExecutor(workers, context, _begin_child, (stop, reports)) as pool:
        with _interrupts_ignored():
            pending = {
                pool.submit(_run_child, function, number, item): number
                for number, item in enumerate(items)
            }
        try:
            while pending:
                done, _ = wait(pending, SECONDS_BETWEEN_REPORTS, FIRST_COMPLETED)
                while not reports.empty():
                    number, latest = reports.get()
                    progress[number] = latest
                for future in done:
                    results |= {pending.pop(future): one for one in future.result()}
                if watch(progress):
                    stop.set()
        except BrokenProcessPool as error:
            raise BrokenInvariant("a process of a simulation ended without a result") from error
        except BaseException:  # a rejected task or an interrupt: do not wait for the others
            for child in active_children():
                child.terminate()
            raise
    return [results[number] for number in sorted(results)]


def _one_by_one(
    function: Callable[[Item, Watch], Result],
    items: Sequence[Item],
    watch: Watch,
    progress: list[Progress | None],
) -> Iterator[Result]:
    for number, item in enumerate(items):
        if watch(progress):
            return

        def watch_one(own: Sequence[Progress | None], number: int = number) -> bool:
            (progress[number],) = own
            return watch(progress)

        yield function(item, watch_one)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A child process inherits the signals that its parent ignores."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# -- in the child process --------------------------------------------------------------------------

_stop: Event
_reports: SimpleQueue[tuple[int, Progress | None]]


def _begin_child(stop: Event, reports: SimpleQueue[tuple[int, Progress | None]]) -> None:
    global _stop, _reports
    _stop, _reports = stop, reports
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process if its parent is killed: an executor's process would wait forever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run_child(function: Callable[[Item, Watch], Result], number: int, item: Item) -> list[Result]:
    """The result in a list, which is empty if the task was stopped before it began."""
    next_s = 0.0

    def watch(own: Sequence[Progress | None]) -> bool:
        nonlocal next_s
        if monotonic() >= next_s:
            _reports.put((number, own[0]))
            next_s = monotonic() + SECONDS_BETWEEN_REPORTS
        return _stop.is_set()

    return [] if _stop.is_set() else [function(item, watch)]

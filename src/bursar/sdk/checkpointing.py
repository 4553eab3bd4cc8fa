"""``with checkpointing(location) as run:``: resume, save, stop in time, and report to Bursar."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bursar.sdk.checkpoint_store import (
    CheckpointName,
    CheckpointStore,
    FolderCheckpointStore,
    Origin,
    PendingCheckpoint,
)
from bursar.sdk.errors import CheckpointProblem, StaleAttempt, TornCheckpoint
from bursar.sdk.signals import STOP_SIGNALS, Preempted, StopSignals
from bursar.sdk.status_reports import FILE, StatusReporter, now_ms, stop_source

Location = str | os.PathLike[str]


class Checkpoint(NamedTuple):
    """A complete checkpoint. ``path`` is a folder that can be read until the ``with`` block ends."""

    step: int
    path: Path
    at_ms: int
    size_bytes: int


class Saved(NamedTuple):
    """The result of a save."""

    step: int
    name: str
    size_bytes: int
    seconds: float


class Skipped(NamedTuple):
    """A torn checkpoint that was not resumed from, and why."""

    name: str
    why: str


class CheckpointSettings(NamedTuple):
    """Settings of a run."""

    keep: int
    leave: bool
    saves: bool
    """Whether this process saves."""
    origin: Origin


@contextmanager
def checkpointing(
    location: Location,
    *,
    keep: int = 3,
    signals: Iterable[int] = STOP_SIGNALS,
    leave: bool = True,
    every_rank: bool = False,
) -> Iterator[Run]:
    """Save and resume checkpoints in ``location``, a folder or a URL such as ``s3://bucket/run``.

    A location belongs to one job and holds the last ``keep`` checkpoints. After one of ``signals`` the next
    save is the last one and exits with ``PREEMPTED_EXIT``; with ``leave=False`` it returns, and
    ``run.leave()`` exits. In a gang only rank 0 saves; with ``every_rank`` each rank saves in a subfolder.
    """
    if keep < 1:
        raise CheckpointProblem(
            f"keep={keep} would keep no checkpoint", fix="keep at least 1, better 3"
        )
    _acquire_process(str(location))
    stop = StopSignals(signals)
    try:
        rank = _number("RANK")
        store = _open_store(_rank_location(location, rank) if every_rank else location)
        saves = every_rank or rank == 0
        origin = Origin(os.environ.get("BURSAR_JOB_ID", ""), _number("BURSAR_ATTEMPT"))
        reporter = StatusReporter(os.environ.get(FILE) if rank == 0 else None)
        run = Run(store, CheckpointSettings(keep, leave, saves, origin), reporter, stop)
        stop.on_stop(
            lambda: reporter.stopping(stop_source(), stop.requested_at_ms, stop.ends_at_ms)
        )
        try:
            if saves:
                store.clear_leftovers()
            if not stop.listen():
                warn("stop signals are ignored: checkpointing() was not entered in the main thread")
            yield run
        finally:
            stop.close()
            store.close()
    finally:
        _release_process()


class Run:
    """The checkpoints of one process. Created by ``checkpointing``."""

    def __init__(
        self,
        store: CheckpointStore,
        settings: CheckpointSettings,
        reporter: StatusReporter,
        stop: StopSignals,
    ) -> None:
        self._store = store
        self._settings = settings
        self._reporter = reporter
        self._stop = stop
        self._lock = threading.Lock()
        self._torn: set[CheckpointName] = set()
        self._save_seconds = 0.0
        self._saved_at = time.monotonic()
        self.skipped: list[Skipped] = []
        """Torn checkpoints that ``resume`` skipped, newest first."""

    # -- resuming ----------------------------------------------------------------------------------

    def resume(self, step: int | None = None) -> Checkpoint | None:
        """The newest complete checkpoint, or None. With ``step``, the newest of that step.

        Torn checkpoints are skipped with a warning. Other read errors, such as a network failure, are
        raised: starting over would be the costlier mistake.
        """
        started_at = time.monotonic()
        self.skipped = []
        for entry in self._store.entries():
            if step is not None and entry.step != step:
                continue
            try:
                manifest, folder = self._store.fetch(entry)
            except TornCheckpoint as torn:
                self._skip(entry, str(torn))
                continue
            checkpoint = Checkpoint(manifest.step, folder, manifest.at_ms, manifest.size_bytes)
            self._saved_at = time.monotonic()
            self._reporter.resumed(
                checkpoint.step, checkpoint.size_bytes, time.monotonic() - started_at
            )
            return checkpoint
        return None

    def steps(self) -> list[int]:
        """Steps of possible checkpoints, newest first; ranks that save separately can agree on one."""
        return [entry.step for entry in self._store.entries()]

    def _skip(self, entry: CheckpointName, why: str) -> None:
        self._torn.add(entry)
        self.skipped.append(Skipped(entry.name, why))
        warn(f"checkpoint {entry.name} in {self._store.location} is torn, skipping it: {why}")

    # -- saving ------------------------------------------------------------------------------------

    @property
    def saves(self) -> bool:
        """Whether this process saves."""
        return self._settings.saves

    def save(self, step: int, write: Callable[[Path], object]) -> Saved | None:
        """Call ``write`` with a folder, and make the files it writes the newest checkpoint.

        None when this rank does not save, or when less of the grace period is left than the last save
        took. After a stop signal this is the last save: it exits with ``PREEMPTED_EXIT``.
        """
        saved = None
        if self._settings.saves and not self._too_late(step):
            pending = self.begin(step)
            try:
                write(pending.path)
            except BaseException:
                self._store.abandon(pending)
                raise
            saved = self.commit(pending)
        if self._settings.leave and self._stop.is_requested:
            self.leave()
        return saved

    def begin(self, step: int) -> PendingCheckpoint:
        """Begin a save in which several processes write into ``path`` of the returned value."""
        if type(step) is not int or step < 0:
            raise CheckpointProblem(f"{step!r} is not a step", fix="count steps in integers from 0")
        return self._store.begin(step, now_ms())

    def commit(self, pending: PendingCheckpoint) -> Saved:
        """Complete a save; called by one process when all have written."""
        with self._lock:
            try:
                self._refuse_if_stale()
                entry, manifest = self._store.commit(pending, self._settings.origin)
            except BaseException:
                self._store.abandon(pending)
                raise
            seconds = (now_ms() - pending.at_ms) / 1_000
            self._save_seconds, self._saved_at = seconds, time.monotonic()
            self._reporter.saved(pending.step, pending.at_ms, manifest.size_bytes, seconds)
            self._remove_old()
            return Saved(pending.step, entry.name, manifest.size_bytes, seconds)

    def due(self, every_seconds: float) -> bool:
        """Whether to save now: the interval has passed, or a stop was requested."""
        return self._stop.is_requested or time.monotonic() - self._saved_at >= every_seconds

    def _refuse_if_stale(self) -> None:
        ours = self._settings.origin
        for entry in self._store.entries()[:1] if ours.job_id else ():
            try:
                newest = self._store.peek(entry)
            except TornCheckpoint:
                return
            if newest.job_id == ours.job_id and newest.attempt > ours.attempt:
                raise StaleAttempt(
                    f"attempt {newest.attempt} of this job has already saved step {newest.step}, "
                    f"and this is attempt {ours.attempt}",
                    fix="nothing to do: the newer attempt continues",
                )

    def _too_late(self, step: int) -> bool:
        left_seconds = self._stop.grace_left_seconds
        if left_seconds is None or left_seconds >= self._save_seconds:
            return False
        warn(
            f"step {step} is not saved: {max(left_seconds, 0.0):.1f} s of the grace period are left and "
            f"the last save took {self._save_seconds:.1f} s; save more often or set a longer grace"
        )
        return True

    def _remove_old(self) -> None:
        """Remove old checkpoints after the new one is durable; torn ones do not count."""
        entries = self._store.entries()
        complete = [entry for entry in entries if entry not in self._torn]
        for entry in (*complete[self._settings.keep :], *sorted(self._torn & set(entries))):
            self._store.remove(entry)
        self._torn.clear()

    # -- stopping ----------------------------------------------------------------------------------

    @property
    def should_stop(self) -> bool:
        """Whether a stop signal was received."""
        return self._stop.is_requested

    @property
    def grace_left_seconds(self) -> float | None:
        """Seconds until the processes are killed; None before a stop, or if not known."""
        return self._stop.grace_left_seconds

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once when a stop is requested, on a background thread."""
        self._stop.on_stop(callback)

    def leave(self) -> None:
        """Exit with ``PREEMPTED_EXIT``, which asks to be run again."""
        raise Preempted

    # -- reporting ---------------------------------------------------------------------------------

    def progress(self, step: int, total: int | None = None) -> None:
        """Report progress. Cheap enough for every step."""
        self._reporter.progress(step, total)


def warn(text: str) -> None:
    """Log a warning to the logger ``bursar.sdk``, by default on standard error."""
    import logging

    logging.getLogger("bursar.sdk").warning("bursar: %s", text)


_in_use_lock = threading.Lock()
_in_use: list[str] = []


def _acquire_process(location: str) -> None:
    """Allow one ``checkpointing`` block at a time in a process."""
    with _in_use_lock:
        if _in_use:
            raise CheckpointProblem(
                f"checkpointing({_in_use[0]!r}) is already in use in this process",
                fix="use its run, and put everything that belongs together into one save",
            )
        _in_use.append(location)


def _release_process() -> None:
    with _in_use_lock:
        _in_use.clear()


os.register_at_fork(after_in_child=_in_use.clear)


def _rank_location(location: Location, rank: int) -> str:
    return f"{os.fspath(location).rstrip('/')}/rank-{rank:05d}"


def _open_store(location: Location) -> CheckpointStore:
    text = os.fspath(location)
    if not text:
        raise CheckpointProblem("the location is empty", fix="name a folder or a URL")
    scheme, separator, path = text.partition("://")
    if not separator:
        return FolderCheckpointStore(Path(text).absolute())
    if scheme == "file":
        return FolderCheckpointStore(Path(path).absolute())
    from bursar.sdk.object_store import open_object_store
    from bursar.sdk.remote_store import RemoteCheckpointStore

    return RemoteCheckpointStore(open_object_store(text))


def _number(name: str) -> int:
    text = os.environ.get(name, "0")
    return int(text) if text.isdecimal() else 0

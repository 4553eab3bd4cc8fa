"""``with checkpointing(place) as run:``: resume, save, stop in time, and tell Bursar about it."""

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
from bursar.sdk.status_reports import FILE, StatusReporter, now_ms, who_stops_jobs

Place = str | os.PathLike[str]


class Checkpoint(NamedTuple):
    """A whole checkpoint. ``path`` is a folder to read from until the ``with`` block ends."""

    step: int
    path: Path
    at_ms: int
    size_bytes: int


class Saved(NamedTuple):
    """What a save came to."""

    step: int
    name: str
    size_bytes: int
    seconds: float


class Skipped(NamedTuple):
    """A checkpoint that was not resumed from, and why."""

    name: str
    why: str


class CheckpointSettings(NamedTuple):
    """How a run keeps its checkpoints."""

    keep: int
    leave: bool
    saves: bool
    """Whether this process is the one that saves."""
    origin: Origin


@contextmanager
def checkpointing(
    place: Place,
    *,
    keep: int = 3,
    signals: Iterable[int] = STOP_SIGNALS,
    leave: bool = True,
    every_rank: bool = False,
) -> Iterator[Run]:
    """Keep the work of this process safe in ``place``, a folder or a URL such as ``s3://bucket/run``.

    A place belongs to one job. ``keep`` checkpoints are kept. After one of ``signals`` the next save is
    the last one and leaves with ``PREEMPTED_EXIT``; with ``leave=False`` it returns, and ``run.leave()``
    does it. In a gang only rank 0 saves, unless ``every_rank`` gives each rank a place of its own.
    """
    if keep < 1:
        raise CheckpointProblem(f"keep={keep} would keep nothing", fix="keep at least 1, better 3")
    _take_turn(str(place))
    stop = StopSignals(signals)
    try:
        rank = _number("RANK")
        shelf = _shelf_at(_place_of(place, rank) if every_rank else place)
        saves = every_rank or rank == 0
        origin = Origin(os.environ.get("BURSAR_JOB_ID", ""), _number("BURSAR_ATTEMPT"))
        teller = StatusReporter(os.environ.get(FILE) if rank == 0 else None)
        run = Run(shelf, CheckpointSettings(keep, leave, saves, origin), teller, stop)
        stop.on_stop(lambda: teller.stopping(who_stops_jobs(), stop.asked_at_ms, stop.ends_at_ms))
        try:
            if saves:
                shelf.clear_leftovers()
            if not stop.listen():
                warn("signals are not heard: checkpointing() was not entered in the main thread")
            yield run
        finally:
            stop.close()
            shelf.close()
    finally:
        _give_turn()


class Run:
    """One process's view of its own checkpoints. Made by ``checkpointing``."""

    def __init__(
        self,
        shelf: CheckpointStore,
        terms: CheckpointSettings,
        teller: StatusReporter,
        stop: StopSignals,
    ) -> None:
        self._shelf = shelf
        self._terms = terms
        self._teller = teller
        self._stop = stop
        self._lock = threading.Lock()
        self._torn: set[CheckpointName] = set()
        self._save_seconds = 0.0
        self._saved_at = time.monotonic()
        self.skipped: list[Skipped] = []
        """What ``resume`` did not take, newest first."""

    # -- going on ----------------------------------------------------------------------------------

    def resume(self, step: int | None = None) -> Checkpoint | None:
        """The newest whole checkpoint, or None. With ``step``, the newest whole one of that step.

        Torn ones are skipped, and said so. What cannot be read for another reason, say a network that
        is down, is raised: to start over would be the costlier mistake.
        """
        begun = time.monotonic()
        self.skipped = []
        for entry in self._shelf.entries():
            if step is not None and entry.step != step:
                continue
            try:
                manifest, folder = self._shelf.fetch(entry)
            except TornCheckpoint as torn:
                self._skip(entry, str(torn))
                continue
            found = Checkpoint(manifest.step, folder, manifest.at_ms, manifest.size_bytes)
            self._saved_at = time.monotonic()
            self._teller.resumed(found.step, found.size_bytes, time.monotonic() - begun)
            return found
        return None

    def steps(self) -> list[int]:
        """Of what may be checkpoints, newest first; ranks that save apart agree on one with it."""
        return [entry.step for entry in self._shelf.entries()]

    def _skip(self, entry: CheckpointName, why: str) -> None:
        self._torn.add(entry)
        self.skipped.append(Skipped(entry.name, why))
        warn(f"checkpoint {entry.name} in {self._shelf.where} is torn and is skipped: {why}")

    # -- saving ------------------------------------------------------------------------------------

    @property
    def saves(self) -> bool:
        """Whether this process is the one that saves."""
        return self._terms.saves

    def save(self, step: int, write: Callable[[Path], object]) -> Saved | None:
        """Let ``write`` put files into a folder, and make them the newest checkpoint.

        None when this rank does not save, or when what is left of the grace is shorter than the last
        save took. After a stop signal this is the last save: it leaves with ``PREEMPTED_EXIT``.
        """
        saved = None
        if self._terms.saves and not self._too_late(step):
            draft = self.begin(step)
            try:
                write(draft.path)
            except BaseException:
                self._shelf.abandon(draft)
                raise
            saved = self.commit(draft)
        if self._terms.leave and self._stop.asked:
            self.leave()
        return saved

    def begin(self, step: int) -> PendingCheckpoint:
        """The first half of a save, for writers of several processes: all write into ``draft.path``."""
        if type(step) is not int or step < 0:
            raise CheckpointProblem(
                f"{step!r} is no step", fix="count steps with whole numbers from 0 on"
            )
        return self._shelf.begin(step, now_ms())

    def commit(self, draft: PendingCheckpoint) -> Saved:
        """The second half, by one process, when all have written."""
        with self._lock:
            try:
                self._refuse_if_stale()
                entry, manifest = self._shelf.commit(draft, self._terms.origin)
            except BaseException:
                self._shelf.abandon(draft)
                raise
            seconds = (now_ms() - draft.at_ms) / 1_000
            self._save_seconds, self._saved_at = seconds, time.monotonic()
            self._teller.saved(draft.step, draft.at_ms, manifest.size_bytes, seconds)
            self._make_room()
            return Saved(draft.step, entry.name, manifest.size_bytes, seconds)

    def due(self, every_seconds: float) -> bool:
        """Whether it is time to save: so long after the last one, and always when asked to stop."""
        return self._stop.asked or time.monotonic() - self._saved_at >= every_seconds

    def _refuse_if_stale(self) -> None:
        ours = self._terms.origin
        for entry in self._shelf.entries()[:1] if ours.job_id else ():
            try:
                newest = self._shelf.peek(entry)
            except TornCheckpoint:
                return
            if newest.job_id == ours.job_id and newest.attempt > ours.attempt:
                raise StaleAttempt(
                    f"attempt {newest.attempt} of this job has saved step {newest.step} already, "
                    f"and this is attempt {ours.attempt}",
                    fix="nothing is to be done: the newer attempt goes on",
                )

    def _too_late(self, step: int) -> bool:
        left = self._stop.grace_left_seconds
        if left is None or left >= self._save_seconds:
            return False
        warn(
            f"step {step} is not saved: {max(left, 0.0):.1f} s of the grace are left and the last "
            f"save took {self._save_seconds:.1f} s; save more often or write a longer grace"
        )
        return True

    def _make_room(self) -> None:
        """Only after the new one is durable, and never by removing a whole one for a torn one."""
        entries = self._shelf.entries()
        whole = [entry for entry in entries if entry not in self._torn]
        for entry in (*whole[self._terms.keep :], *sorted(self._torn & set(entries))):
            self._shelf.remove(entry)
        self._torn.clear()

    # -- stopping ----------------------------------------------------------------------------------

    @property
    def should_stop(self) -> bool:
        """Whether a signal asked this process to stop."""
        return self._stop.asked

    @property
    def grace_left_seconds(self) -> float | None:
        """How long there is until the processes are killed; None when nobody said."""
        return self._stop.grace_left_seconds

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once when the stop comes, in a thread of its own."""
        self._stop.on_stop(callback)

    def leave(self) -> None:
        """Leave with ``PREEMPTED_EXIT``: run me again."""
        raise Preempted

    # -- telling -----------------------------------------------------------------------------------

    def progress(self, step: int, total: int | None = None) -> None:
        """Say how far the work has come. Cheap enough for every step."""
        self._teller.progress(step, total)


def warn(text: str) -> None:
    """To the log ``bursar.sdk``, which is standard error unless the program says otherwise."""
    import logging

    logging.getLogger("bursar.sdk").warning("bursar: %s", text)


_turn = threading.Lock()
_in_use: list[str] = []


def _take_turn(place: str) -> None:
    with _turn:
        if _in_use:
            raise CheckpointProblem(
                f"checkpointing({_in_use[0]!r}) is in use in this process already",
                fix="use the run that it gave, and put everything that belongs together into one save",
            )
        _in_use.append(place)


def _give_turn() -> None:
    with _turn:
        _in_use.clear()


os.register_at_fork(after_in_child=_in_use.clear)


def _place_of(place: Place, rank: int) -> str:
    return f"{os.fspath(place).rstrip('/')}/rank-{rank:05d}"


def _shelf_at(place: Place) -> CheckpointStore:
    text = os.fspath(place)
    if not text:
        raise CheckpointProblem("no place was given", fix="name a folder or a URL")
    scheme, separator, path = text.partition("://")
    if not separator:
        return FolderCheckpointStore(Path(text).absolute())
    if scheme == "file":
        return FolderCheckpointStore(Path(path).absolute())
    from bursar.sdk.object_store import target_at
    from bursar.sdk.remote_store import RemoteCheckpointStore

    return RemoteCheckpointStore(target_at(text))


def _number(name: str) -> int:
    text = os.environ.get(name, "0")
    return int(text) if text.isdecimal() else 0

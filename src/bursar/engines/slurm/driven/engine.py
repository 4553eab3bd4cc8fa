"""The Slurm engine: ``ports.Engine`` over Slurm's commands, its REST socket and a shared folder."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from bursar.engines.slurm.commands.background import BackgroundTask
from bursar.engines.slurm.commands.job_query import QueueLine, SlurmJobState, queue
from bursar.engines.slurm.commands.job_query import fates as fates_of
from bursar.engines.slurm.driven.attempt_folder import (
    SAVED,
    STOP,
    SUBMISSION,
    TAKEN,
    AttemptFolders,
    EndRecord,
    key_of,
)
from bursar.engines.slurm.driven.attempt_tracking import (
    MOST_SUBMISSIONS,
    Circumstances,
    StopState,
    TrackedAttempt,
    Verdict,
    exit_of,
    split_code,
    verdict,
)
from bursar.engines.slurm.driven.cluster_watch import ClusterWatch
from bursar.engines.slurm.driven.outbox import SEND_AGAIN_SECONDS, Outbox
from bursar.engines.slurm.driven.report_batch import ReportBatch
from bursar.engines.slurm.driven.settings import SlurmSettings
from bursar.engines.slurm.driven.stop import Stopper, terms_of
from bursar.engines.task_ranks import start_problem
from bursar.model.engine_report import EngineReport, NodeLostReported, TasksEnded, TasksStarted
from bursar.model.errors import BrokenInvariant, EngineFault
from bursar.model.fleet.gpu import Layout
from bursar.model.jobs.attempt import Exit
from bursar.ports import AttemptRef, LogFile, StartOrder

FATE_LOOKS, FATE_LOOK_SECONDS = 20, 0.2
"""How long Slurm may take to know how a job ended that a signal has ended."""
ENDED_FROM_OUTSIDE = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGKILL})
"""Signals that Slurm sends to jobs; a program that crashes by another one has nobody behind it."""
HURRY_SECONDS = 0.25
"""How soon Slurm is asked again while something is being killed or is missing."""
CLOSE_SECONDS = 10.0


class SlurmEngine:
    """Runs attempts as Slurm jobs on exactly the nodes that were chosen for them."""

    def __init__(self, settings: SlurmSettings) -> None:
        self._settings = settings
        self._commands = settings.commands
        self._folders = AttemptFolders(settings.state / "slurm")
        self._cluster = ClusterWatch(settings.commands, self._folders, settings.nodes)
        self._outbox = Outbox(settings, self._folders, self._cluster, self._refuse)
        self._stopper = Stopper(settings.commands, self._outbox)
        self._lock = threading.RLock()
        self._telling = ReportBatch()
        self._poll = BackgroundTask(self._ask_slurm, "bursar-slurm-poll")
        self._leaving: list[AttemptRef] = []
        self._followed: dict[AttemptRef, TrackedAttempt] = {}
        self._ghosts: set[str] = set()
        self._next_poll = 0.0
        self._next_node_poll = 0.0
        self._is_open = False

    # -- coming and going --------------------------------------------------------------------------

    def open(self, live: Sequence[AttemptRef]) -> None:
        """Find our jobs by their comments, and what became of them by their folders."""
        self._outbox.prefix = f"bursar:{self._folders.prepare()}:"
        self._cluster.open()
        self._outbox.open()
        self._is_open = True
        wanted = set(live)
        for ref in sorted(set(self._folders.unsettled()) | wanted, key=key_of):
            folder = self._folders.of(ref)
            if not folder.is_known or (ref not in wanted and folder.tale().end is not None):
                folder.leave()
                continue
            followed = self._remember(ref)
            followed.is_wanted = ref in wanted
            followed.in_doubt = True
        self._find_ours()
        self._outbox.know_ids(one.main_id for one in self._followed.values())
        for followed in list(self._followed.values()):
            if not followed.is_wanted:
                self._stop(followed, int(terms_of(followed)["grace_seconds"]))
            self._look_at(followed)

    def _find_ours(self) -> None:
        """Who is in the queue under our name. What nobody wrote down must not run: it is cancelled."""
        try:
            lines = queue(self._commands)
        except EngineFault:
            return
        strays = []
        for line in lines:
            ref = self._outbox.ref_of(line.comment)
            followed = self._followed.get(ref) if ref is not None else None
            if followed is not None:
                followed.add(line.id)
                followed.in_doubt = False
            elif ref is not None:
                strays.append(line.id)
        if strays:
            self._stopper.cancel(strays)

    def _remember(self, ref: AttemptRef, record: dict[str, Any] | None = None) -> TrackedAttempt:
        folder = self._folders.of(ref)
        followed = TrackedAttempt(ref=ref, folder=folder)
        is_new = record is not None
        record = record or folder.read(SUBMISSION)
        if record is not None:
            followed.nodes = tuple(node for part in record["request"]["parts"] for node in part[0])
            followed.gpus = {node: tuple(gpus) for node, gpus in record["gpus"].items()}
        if not is_new and folder.taken_by:
            followed.add(folder.taken_by)
        stop = None if is_new else folder.read(STOP)
        if stop is not None:
            grace = int(stop.get("grace_seconds", 0))
            followed.stop = StopState(grace_seconds=grace, kill_at=time.monotonic() + grace)
        if self._settings.told is not None:
            followed.reader = self._settings.told(folder.file(SAVED), ref)
        with self._lock:
            return self._followed.setdefault(ref, followed)

    def close(self) -> None:
        """Let go. What runs goes on running."""
        self._is_open = False
        self._outbox.close()
        self._poll.finish(CLOSE_SECONDS)
        self._let_leave()

    def unknown(self, live: Sequence[AttemptRef]) -> tuple[AttemptRef, ...]:
        """Whatever has a folder was taken: it was submitted, or will be."""
        with self._lock:
            return tuple(
                ref
                for ref in live
                if ref not in self._followed and not self._folders.of(ref).is_known
            )

    # -- start -------------------------------------------------------------------------------------

    def start(self, order: StartOrder) -> None:
        """Taken when its folder is written; from then on it will be submitted, whatever happens."""
        ref = order.ref
        folder = self._folders.of(ref)
        if not order.placement.tasks:
            raise BrokenInvariant(f"attempt {ref.attempt} of {ref.job_id} is placed nowhere")
        if ref in self._followed or folder.is_known:
            followed = self._followed.get(ref) or self._remember(ref)
            self._look_at(followed)
            return
        refused = start_problem(order) or self._outbox.cannot_be_one_job(order)
        if refused:
            followed = self._remember(ref)
            self._settle_end(followed, Exit(detail=refused))
            return
        record = self._outbox.write_down(order)
        followed = self._remember(ref, record)
        folder.enter()
        self._outbox.post(followed, record)

    def _refuse(self, followed: TrackedAttempt, why: str) -> None:
        self._settle_end(followed, Exit(detail=why))

    # -- stop --------------------------------------------------------------------------------------

    def stop(self, ref: AttemptRef, grace_seconds: int) -> None:
        """Also what was never started: it is marked so that it cannot start any more."""
        followed = self._followed.get(ref)
        if followed is None:
            followed = self._remember(ref)
            followed.in_doubt = True
        followed.told_ended = False
        if followed.folder.tale().end is not None:
            self._look_at(followed)
            return
        self._stop(followed, grace_seconds)

    def _stop(self, followed: TrackedAttempt, grace_seconds: int) -> None:
        now = time.monotonic()
        if followed.stop is None:
            os.makedirs(followed.folder.path, mode=0o700, exist_ok=True)
            followed.stop = StopState(grace_seconds=grace_seconds, kill_at=now + grace_seconds)
        elif now + grace_seconds < followed.stop.kill_at:
            followed.stop.kill_at = now + grace_seconds
            followed.stop.grace_seconds = grace_seconds
        terms = {**terms_of(followed), "grace_seconds": followed.stop.grace_seconds}
        followed.folder.keep(STOP, terms)
        if followed.folder.take():
            self._settle_end(followed, Exit(detail="stopped as ordered, before it was started"))
            self._stopper.cancel(self._stopper.ids(followed))
            return
        self._press(followed)

    def _press(self, followed: TrackedAttempt) -> None:
        self._stopper.press(followed)
        self._hurry()

    def partition(self, node: str, gpu: int, layout: Layout) -> None:
        """Slurm's types of GPU are fixed by its administrator: what is cut so is accepted."""
        self._cluster.require_layout(node, gpu, layout)

    # -- reports -----------------------------------------------------------------------------------

    def reports(self, timeout_seconds: float) -> Sequence[EngineReport]:
        """What jobs left word of; every now and then also what Slurm says of them and of its nodes."""
        until = time.monotonic() + timeout_seconds
        while True:
            if not self._is_open:
                raise EngineFault("Slurm engine: it is not open", retry_after_seconds=1.0)
            self._take_news()
            self._send_what_waits()
            self._poll_when_due()
            self._let_leave()
            left = until - time.monotonic()
            found = self._telling.take(is_last_chance=left <= 0)
            if found or left <= 0:
                return found
            self._telling.wait(min(left, self._settings.look_seconds))

    def _take_news(self) -> None:
        for ref in self._folders.take_news():
            followed = self._followed.get(ref)
            if followed is not None:
                self._look_at(followed)

    def _send_what_waits(self) -> None:
        now = time.monotonic()
        with self._lock:
            unsent = [
                one for one in self._followed.values() if one.is_unsent and now >= one.send_at
            ]
        for followed in unsent:
            if followed.stop is None and followed.folder.has(SUBMISSION):
                self._outbox.post(followed)

    def _poll_when_due(self) -> None:
        """Beside the looks at the folder: what jobs tell themselves need not wait for Slurm's answers."""
        due, now = self._next_poll, time.monotonic()
        if now >= due:
            # Before it begins: while it asks it may want to be asked again sooner.
            self._next_poll = now + self._settings.poll_seconds
            if not self._poll.begin():
                self._next_poll = due

    def _ask_slurm(self) -> None:
        """One question for the queue serves both looks."""
        now = time.monotonic()
        with self._lock:
            asked = [one for one in self._followed.values() if not one.told_ended]
            sent_before = {one.ref for one in asked if one.main_id}
        is_time_for_nodes = now >= self._next_node_poll
        if not asked and not is_time_for_nodes:
            return
        try:
            lines = queue(self._commands)
            self._follow_queue(asked, sent_before, lines)
            if is_time_for_nodes:
                self._next_node_poll = now + self._settings.node_poll_seconds
                self._watch_cluster(lines)
        except EngineFault:
            return

    def _hurry(self) -> None:
        self._next_poll = min(self._next_poll, time.monotonic() + HURRY_SECONDS)

    def _watch_cluster(self, lines: Sequence[QueueLine]) -> None:
        with self._lock:
            held: dict[str, set[int]] = {}
            for one in self._followed.values():
                for node, gpus in one.gpus.items() if not one.told_ended else ():
                    held.setdefault(node, set()).update(gpus)
        self._end_ghosts(lines)
        foreign = [
            line.id for line in lines if line.holds and self._outbox.ref_of(line.comment) is None
        ]
        for report in self._cluster.look(foreign, held):
            self._tell(report)

    def _end_ghosts(self, lines: Sequence[QueueLine]) -> None:
        """Jobs of ours that Slurm believes to wait or run though their attempts are over, or were given to
        other jobs: a controller that was down when they ended keeps their devices from others. What is so
        in two looks is cancelled."""
        ghosts = set()
        for line in lines:
            ref = self._outbox.ref_of(line.comment)
            followed = self._followed.get(ref) if ref is not None else None
            if ref is None or line.state not in ("RUNNING", "PENDING"):
                continue
            if followed is None or followed.told_ended or line.id in followed.given_up:
                ghosts.add(line.id)
        self._stopper.cancel(sorted(ghosts & self._ghosts))
        self._ghosts = ghosts

    def _follow_queue(
        self,
        asked: Sequence[TrackedAttempt],
        sent_before: set[AttemptRef],
        lines: Sequence[QueueLine],
    ) -> None:
        """What the queue says of our attempts; then Slurm is asked for those that are not in it."""
        present = self._present(lines)
        owners = {line.id: self._outbox.ref_of(line.comment) for line in lines}
        missing = []
        for followed in asked:
            line = present.get(followed.ref)
            followed.disown(
                {one for one in followed.ids if owners.get(one, followed.ref) != followed.ref}
            )
            if line is None or line.holds:
                self._look_at(followed)
            if followed.told_ended:
                continue
            if line is not None and followed.stop is not None:
                self._press(followed)
            elif line is not None:
                self._watch_launch(followed, line)
            if line is not None or followed.ref not in sent_before:
                followed.missing_since = None
            else:
                missing.append(followed)
        if missing:
            self._judge(missing)

    def _present(self, lines: Sequence[QueueLine]) -> dict[AttemptRef, QueueLine]:
        """Our attempts that are in the queue, without the jobs that were replaced."""
        found = {}
        for line in lines:
            ref = self._outbox.ref_of(line.comment)
            followed = self._followed.get(ref) if ref is not None else None
            if ref is not None and (followed is None or line.id not in followed.given_up):
                found[ref] = line
        return found

    def _watch_launch(self, followed: TrackedAttempt, line: QueueLine) -> None:
        """A launch that got lost is repeated: the mark lets only one of the two run."""
        is_held = line.state == "PENDING" and "launch failed" in line.reason
        if not is_held and (line.state != "RUNNING" or followed.folder.has(TAKEN)):
            followed.running_since = None
            return
        now = time.monotonic()
        followed.running_since = followed.running_since or now
        waited = now - followed.running_since
        is_lost = is_held or waited > self._settings.launch_seconds
        if is_lost and followed.submissions < MOST_SUBMISSIONS:
            self._stopper.cancel(list(followed.ids))
            followed.send_again(0.0)

    def _judge(self, missing: list[TrackedAttempt]) -> None:
        """Attempts that Slurm does not list and that have not told how they ended."""
        fates = fates_of(self._commands, [one.main_id for one in missing if one.main_id])
        now = time.monotonic()
        for followed in missing:
            self._look_at(followed)
            if followed.told_ended:
                continue
            if followed.missing_since is None:
                followed.missing_since = now
            fate = fates.get(followed.main_id)
            if fate is not None and self._outbox.ref_of(fate.comment) not in (followed.ref, None):
                fate = None
            about = Circumstances(
                missing_seconds=now - followed.missing_since,
                patience_seconds=self._settings.lost_after_seconds,
                slurm_forgot=self._outbox.has_slurm_forgotten(),
            )
            found = verdict(followed, fate, about)
            if found.node_lost:
                self._tell_of_lost(fate.nodes if fate is not None else followed.nodes)
            self._obey(followed, found)

    def _obey(self, followed: TrackedAttempt, found: Verdict) -> None:
        if found.ended is not None:
            # Nothing may begin after its end was told, also if Slurm remembers it later.
            followed.folder.take()
            self._settle_end(followed, found.ended)
        elif found.submit_again:
            with self._lock:
                followed.send_again(SEND_AGAIN_SECONDS * followed.submissions)
        else:
            self._hurry()

    def _tell_of_lost(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            if self._cluster.is_gone(node):
                self._tell(NodeLostReported(node=node, at_ms=_now_ms(), detail="Slurm lost it"))

    # -- what a folder says ------------------------------------------------------------------------

    def _look_at(self, followed: TrackedAttempt) -> None:
        """Report of an attempt what its folder says and was not reported yet."""
        tale = followed.folder.tale()
        record = None if followed.told_ended else tale.end
        began_at_ms = None if followed.told_began else tale.began_at_ms
        fate = self._fate_behind_our_back(followed, record) if record is not None else None
        with self._lock:
            if began_at_ms is not None and not followed.told_began:
                followed.told_began = True
                self._tell(TasksStarted(at_ms=began_at_ms, **_named(followed.ref)), followed)
            if followed.reader is not None and not followed.told_ended:
                for told in followed.reader.new_reports():
                    self._tell(told, followed)
            if record is not None and not followed.told_ended:
                followed.told_ended = True
                how = exit_of(record, followed, fate)
                self._tell(
                    TasksEnded(at_ms=record.at_ms, exit=how, **_named(followed.ref)), followed
                )

    def _fate_behind_our_back(
        self, followed: TrackedAttempt, record: EndRecord
    ) -> SlurmJobState | None:
        """A signal that nobody here ordered: Slurm knows who ended it, a little later. The script need not
        have heard it: sometimes its program is gone before it is told itself."""
        was_signalled = bool(record.told) or split_code(record.code)[1] in ENDED_FROM_OUTSIDE
        if not was_signalled or followed.stop is not None or not followed.ids:
            return None
        try:
            for _ in range(FATE_LOOKS):
                fate = fates_of(self._commands, [followed.main_id]).get(followed.main_id)
                if fate is None or fate.is_over:
                    return fate
                time.sleep(FATE_LOOK_SECONDS)
        except EngineFault:
            return None
        return None

    def _settle_end(self, followed: TrackedAttempt, how: Exit) -> None:
        """An end that no script wrote: write it down first, so that it is told the same again."""
        folder = followed.folder
        if folder.tale().end is None:
            os.makedirs(folder.path, mode=0o700, exist_ok=True)
            code = how.code if how.signal is None else 128 + how.signal
            folder.write_end(EndRecord(at_ms=_now_ms(), code=code, told="", detail=how.detail))
            folder.take()
        self._look_at(followed)

    def _tell(self, report: EngineReport, followed: TrackedAttempt | None = None) -> None:
        if followed is not None and not followed.is_wanted:
            if isinstance(report, TasksEnded):
                followed.folder.leave()
                self._followed.pop(followed.ref, None)
            return
        self._telling.add(report)

    def settled(self, refs: Iterable[AttemptRef]) -> None:
        """Their marks stay, so that they can never run again. Who calls this has better to do than to
        wait for files to be removed: what is left of one that crashed here is removed at the next start."""
        with self._lock:
            for ref in refs:
                self._followed.pop(ref, None)
                self._leaving.append(ref)

    def _let_leave(self) -> None:
        """The index forgets those that are settled."""
        with self._lock:
            refs, self._leaving = self._leaving, []
        for ref in refs:
            self._folders.of(ref).leave()

    # -- what is kept ------------------------------------------------------------------------------

    def logs(self, ref: AttemptRef) -> Sequence[LogFile]:
        """Two streams for each task that wrote something."""
        return self._folders.of(ref).logs()

    def forget(self, job_ids: Iterable[str]) -> tuple[str, ...]:
        """Remove everything that is kept of these jobs; gives those that are not over and stay."""
        self._let_leave()
        live = {ref.job_id for ref in self._folders.unsettled()}
        kept = []
        for job_id in job_ids:
            if job_id in live:
                kept.append(job_id)
                continue
            attempts = os.path.dirname(self._folders.of(AttemptRef(job_id=job_id, attempt=0)).path)
            shutil.rmtree(attempts, ignore_errors=True)
        return tuple(kept)


def _named(ref: AttemptRef) -> dict[str, Any]:
    return {"job_id": ref.job_id, "attempt": ref.attempt}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""The driven Slurm engine: implements ``ports.Engine`` with Slurm's commands and a shared folder."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from bursar.engines.slurm.commands.background import BackgroundTask
from bursar.engines.slurm.commands.job_query import (
    SlurmJobState,
    SlurmQueueEntry,
    query_job_states,
    queue,
)
from bursar.engines.slurm.driven.attempt_folder import (
    CLAIM,
    SAVED,
    STOP,
    SUBMISSION,
    AttemptFolders,
    EndRecord,
    key_of,
)
from bursar.engines.slurm.driven.attempt_tracking import (
    MOST_SUBMISSIONS,
    MissingContext,
    Resolution,
    StopState,
    TrackedAttempt,
    exit_of,
    resolve_missing,
    split_code,
)
from bursar.engines.slurm.driven.cluster_watch import ClusterWatch
from bursar.engines.slurm.driven.outbox import RESUBMIT_SECONDS, Outbox
from bursar.engines.slurm.driven.report_batch import ReportBatch
from bursar.engines.slurm.driven.request import StoredOrder
from bursar.engines.slurm.driven.settings import SlurmSettings
from bursar.engines.slurm.driven.stop import Stopper
from bursar.engines.status_file import StatusFile
from bursar.engines.task_ranks import start_problem
from bursar.model.engine_report import EngineReport, TasksEnded
from bursar.model.errors import BrokenInvariant, EngineFault
from bursar.model.event import AttemptStarted, NodeLost
from bursar.model.fleet.gpu import Layout
from bursar.model.jobs.attempt import Exit
from bursar.ports import AttemptRef, LogFile, StartOrder

END_STATE_POLLS, END_STATE_POLL_SECONDS = 20, 0.2
"""How long to wait until Slurm knows how a job ended that was ended by a signal."""
EXTERNAL_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGKILL})
"""Signals that Slurm sends to jobs; any other signal is a crash of the program itself."""
URGENT_POLL_SECONDS = 0.25
"""Poll interval of Slurm while an attempt is being killed or is missing."""
CLOSE_SECONDS = 10.0


class SlurmEngine:
    """Runs attempts as Slurm jobs on exactly the nodes of their placement."""

    def __init__(self, settings: SlurmSettings) -> None:
        self._settings = settings
        self._commands = settings.commands
        self._folders = AttemptFolders(settings.state / "slurm")
        self._cluster = ClusterWatch(settings.commands, self._folders, settings.nodes)
        self._outbox = Outbox(settings, self._folders, self._cluster, self._record_end)
        self._stopper = Stopper(settings.commands, self._outbox)
        self._lock = threading.RLock()
        self._batch = ReportBatch()
        self._poll = BackgroundTask(self._query_slurm, "bursar-slurm-poll")
        self._settled: list[AttemptRef] = []
        self._tracked: dict[AttemptRef, TrackedAttempt] = {}
        self._stale_ids: set[str] = set()
        self._next_poll = 0.0
        self._next_node_poll = 0.0
        self._is_open = False

    # -- open and close ----------------------------------------------------------------------------

    def open(self, live: Sequence[AttemptRef]) -> None:
        """Find our jobs by their comments, and their progress in their folders."""
        self._outbox.prefix = f"bursar:{self._folders.prepare()}:"
        self._cluster.open()
        self._outbox.open()
        self._is_open = True
        live_refs = set(live)
        for ref in sorted(set(self._folders.unsettled()) | live_refs, key=key_of):
            folder = self._folders.of(ref)
            if not folder.is_accepted or (ref not in live_refs and folder.record().end is not None):
                folder.remove_from_index()
                continue
            attempt = self._track(ref)
            attempt.is_live = ref in live_refs
            attempt.in_doubt = True
        self._adopt_queued()
        self._outbox.seed_highest_id(one.main_id for one in self._tracked.values())
        for attempt in list(self._tracked.values()):
            if not attempt.is_live:
                self._stop(attempt, attempt.grace_seconds)
            self._report_changes(attempt)

    def _adopt_queued(self) -> None:
        """Find our jobs in the queue. A job of ours without a tracked attempt is cancelled."""
        try:
            entries = queue(self._commands)
        except EngineFault:
            return
        untracked = []
        for entry in entries:
            ref = self._outbox.ref_of(entry.comment)
            attempt = self._tracked.get(ref) if ref is not None else None
            if attempt is not None:
                attempt.add(entry.id)
                attempt.in_doubt = False
            elif ref is not None:
                untracked.append(entry.id)
        self._stopper.cancel(untracked)

    def _track(self, ref: AttemptRef, order: StoredOrder | None = None) -> TrackedAttempt:
        folder = self._folders.of(ref)
        status = StatusFile(folder.file(SAVED), ref)
        attempt = TrackedAttempt(ref=ref, folder=folder, status=status)
        is_new = order is not None
        order = order or folder.order()
        if order is not None:
            attempt.nodes = tuple(node for one in order.request.components for node in one.nodes)
            attempt.gpus = order.gpus
            attempt.grace_seconds, attempt.stop_signal = order.grace_seconds, order.stop_signal
        if not is_new and folder.claimed_by:
            attempt.add(folder.claimed_by)
        stop = None if is_new else folder.read_record(STOP, dict[str, Any])
        if stop is not None:
            grace = int(stop.get("grace_seconds", 0))
            attempt.stop = StopState(grace_seconds=grace, kill_at=time.monotonic() + grace)
        with self._lock:
            return self._tracked.setdefault(ref, attempt)

    def close(self) -> None:
        """Stop the background threads. Attempts keep running."""
        self._is_open = False
        self._outbox.close()
        self._poll.finish(CLOSE_SECONDS)
        self._clean_settled()

    def unknown(self, live: Sequence[AttemptRef]) -> tuple[AttemptRef, ...]:
        """Attempts without a stored order. All others were submitted, or will be."""
        with self._lock:
            return tuple(
                ref
                for ref in live
                if ref not in self._tracked and not self._folders.of(ref).is_accepted
            )

    # -- start -------------------------------------------------------------------------------------

    def start(self, order: StartOrder) -> None:
        """Return when the order is stored; from then on it is submitted, also after a crash."""
        ref = order.ref
        folder = self._folders.of(ref)
        if not order.placement.tasks:
            raise BrokenInvariant(f"attempt {ref.attempt} of {ref.job_id} has no placement")
        if ref in self._tracked or folder.is_accepted:
            attempt = self._tracked.get(ref) or self._track(ref)
            self._report_changes(attempt)
            return
        refused = start_problem(order) or self._outbox.partition_problem(order)
        if refused:
            attempt = self._track(ref)
            self._record_end(attempt, Exit(detail=refused))
            return
        stored = self._outbox.write_order(order)
        attempt = self._track(ref, stored)
        folder.add_to_index()
        self._outbox.post(attempt, stored)

    # -- stop --------------------------------------------------------------------------------------

    def stop(self, ref: AttemptRef, grace_seconds: int) -> None:
        """Stop an attempt. One that was never started is claimed, so that it cannot start any more."""
        attempt = self._tracked.get(ref)
        if attempt is None:
            attempt = self._track(ref)
            attempt.in_doubt = True
        attempt.end_reported = False
        if attempt.folder.record().end is not None:
            self._report_changes(attempt)
            return
        self._stop(attempt, grace_seconds)

    def _stop(self, attempt: TrackedAttempt, grace_seconds: int) -> None:
        now = time.monotonic()
        if attempt.stop is None:
            os.makedirs(attempt.folder.path, mode=0o700, exist_ok=True)
            attempt.stop = StopState(grace_seconds=grace_seconds, kill_at=now + grace_seconds)
        elif now + grace_seconds < attempt.stop.kill_at:
            attempt.stop.kill_at = now + grace_seconds
            attempt.stop.grace_seconds = grace_seconds
        attempt.folder.write_record(STOP, {"grace_seconds": attempt.stop.grace_seconds})
        if attempt.folder.claim():
            self._record_end(attempt, Exit(detail="stopped as ordered, before it was started"))
            self._stopper.cancel(self._stopper.ids(attempt))
            return
        self._apply_stop(attempt)

    def _apply_stop(self, attempt: TrackedAttempt) -> None:
        self._stopper.apply_stop(attempt)
        self._poll_soon()

    def partition(self, node: str, gpu: int, layout: Layout) -> None:
        """Accept a layout that Slurm already has: its GPU types are fixed by the administrator."""
        self._cluster.require_layout(node, gpu, layout)

    # -- reports -----------------------------------------------------------------------------------

    def reports(self, timeout_seconds: float) -> Sequence[EngineReport]:
        """Wait for new reports: from messages of jobs, and from polling Slurm."""
        until = time.monotonic() + timeout_seconds
        while True:
            if not self._is_open:
                raise EngineFault("Slurm engine: it is not open", retry_after_seconds=1.0)
            self._take_messages()
            self._send_unsent()
            self._poll_when_due()
            self._clean_settled()
            remaining_seconds = until - time.monotonic()
            reports = self._batch.take(flush=remaining_seconds <= 0)
            if reports or remaining_seconds <= 0:
                return reports
            self._batch.wait(min(remaining_seconds, self._settings.folder_poll_seconds))

    def _take_messages(self) -> None:
        for ref in self._folders.take_messages():
            attempt = self._tracked.get(ref)
            if attempt is not None:
                self._report_changes(attempt)

    def _send_unsent(self) -> None:
        now = time.monotonic()
        with self._lock:
            unsent = [one for one in self._tracked.values() if one.is_unsent and now >= one.send_at]
        for attempt in unsent:
            if attempt.stop is None and attempt.folder.has(SUBMISSION):
                self._outbox.post(attempt)

    def _poll_when_due(self) -> None:
        """Poll on a background thread: reading messages must not wait for Slurm."""
        due, now = self._next_poll, time.monotonic()
        if now >= due:
            # Set before the poll begins, which may request an earlier one.
            self._next_poll = now + self._settings.poll_seconds
            if not self._poll.begin():
                self._next_poll = due

    def _query_slurm(self) -> None:
        """Poll the queue, once for both attempts and nodes."""
        now = time.monotonic()
        with self._lock:
            running = [one for one in self._tracked.values() if not one.end_reported]
            submitted = {one.ref for one in running if one.main_id}
        is_node_poll_due = now >= self._next_node_poll
        if not running and not is_node_poll_due:
            return
        try:
            entries = queue(self._commands)
            self._check_queue(running, submitted, entries)
            if is_node_poll_due:
                self._next_node_poll = now + self._settings.node_poll_seconds
                self._watch_cluster(entries)
        except EngineFault:
            return

    def _poll_soon(self) -> None:
        self._next_poll = min(self._next_poll, time.monotonic() + URGENT_POLL_SECONDS)

    def _watch_cluster(self, entries: Sequence[SlurmQueueEntry]) -> None:
        with self._lock:
            held: dict[str, set[int]] = {}
            for one in self._tracked.values():
                for node, gpus in one.gpus.items() if not one.end_reported else ():
                    held.setdefault(node, set()).update(gpus)
        self._cancel_stale(entries)
        foreign = [
            entry.id
            for entry in entries
            if entry.holds_nodes and self._outbox.ref_of(entry.comment) is None
        ]
        for report in self._cluster.poll(foreign, held):
            self._report(report)

    def _cancel_stale(self, entries: Sequence[SlurmQueueEntry]) -> None:
        """Cancel our jobs that Slurm still lists although their attempts are over or were replaced: a
        slurmctld that was down when they ended keeps their devices allocated. Only jobs that are stale in
        two polls are cancelled."""
        stale = set()
        for entry in entries:
            ref = self._outbox.ref_of(entry.comment)
            attempt = self._tracked.get(ref) if ref is not None else None
            if ref is None or entry.state not in ("RUNNING", "PENDING"):
                continue
            if attempt is None or attempt.end_reported or entry.id in attempt.replaced_ids:
                stale.add(entry.id)
        self._stopper.cancel(sorted(stale & self._stale_ids))
        self._stale_ids = stale

    def _check_queue(
        self,
        running: Sequence[TrackedAttempt],
        submitted: set[AttemptRef],
        entries: Sequence[SlurmQueueEntry],
    ) -> None:
        """Compare our attempts with the queue, and query the states of those that have left it."""
        queued = self._queued_attempts(entries)
        owners = {entry.id: self._outbox.ref_of(entry.comment) for entry in entries}
        missing = []
        for attempt in running:
            entry = queued.get(attempt.ref)
            attempt.drop_ids(
                {one for one in attempt.ids if owners.get(one, attempt.ref) != attempt.ref}
            )
            if entry is None or entry.holds_nodes:
                self._report_changes(attempt)
            if attempt.end_reported:
                continue
            if entry is not None and attempt.stop is not None:
                self._apply_stop(attempt)
            elif entry is not None:
                self._watch_launch(attempt, entry)
            if entry is not None or attempt.ref not in submitted:
                attempt.missing_since = None
            else:
                missing.append(attempt)
        if missing:
            self._resolve_missing(missing)

    def _queued_attempts(
        self, entries: Sequence[SlurmQueueEntry]
    ) -> dict[AttemptRef, SlurmQueueEntry]:
        """Our attempts in the queue, without jobs that were replaced."""
        queued = {}
        for entry in entries:
            ref = self._outbox.ref_of(entry.comment)
            attempt = self._tracked.get(ref) if ref is not None else None
            if ref is not None and (attempt is None or entry.id not in attempt.replaced_ids):
                queued[ref] = entry
        return queued

    def _watch_launch(self, attempt: TrackedAttempt, entry: SlurmQueueEntry) -> None:
        """Replace a job whose launch was lost: the claim lets only one of the two run."""
        is_held = entry.state == "PENDING" and "launch failed" in entry.reason
        if not is_held and (entry.state != "RUNNING" or attempt.folder.has(CLAIM)):
            attempt.running_since = None
            return
        now = time.monotonic()
        attempt.running_since = attempt.running_since or now
        waited_seconds = now - attempt.running_since
        is_lost = is_held or waited_seconds > self._settings.launch_seconds
        if is_lost and attempt.submissions < MOST_SUBMISSIONS:
            self._stopper.cancel(list(attempt.ids))
            attempt.schedule_resubmit(0.0)

    def _resolve_missing(self, missing: list[TrackedAttempt]) -> None:
        """Handle attempts that have left the queue without recording an end."""
        states = query_job_states(self._commands, [one.main_id for one in missing if one.main_id])
        now = time.monotonic()
        for attempt in missing:
            self._report_changes(attempt)
            if attempt.end_reported:
                continue
            if attempt.missing_since is None:
                attempt.missing_since = now
            state = states.get(attempt.main_id)
            if state is not None and self._outbox.ref_of(state.comment) not in (attempt.ref, None):
                state = None
            context = MissingContext(
                missing_seconds=now - attempt.missing_since,
                timeout_seconds=self._settings.lost_after_seconds,
                ids_were_reused=self._outbox.has_reused_ids(),
            )
            resolution = resolve_missing(attempt, state, context)
            if resolution.node_lost:
                self._report_lost_nodes(state.nodes if state is not None else attempt.nodes)
            self._apply(attempt, resolution)

    def _apply(self, attempt: TrackedAttempt, resolution: Resolution) -> None:
        if resolution.ended is not None:
            # The attempt must not start after its end was reported, even if Slurm launches it later.
            attempt.folder.claim()
            self._record_end(attempt, resolution.ended)
        elif resolution.submit_again:
            with self._lock:
                attempt.schedule_resubmit(RESUBMIT_SECONDS * attempt.submissions)
        else:
            self._poll_soon()

    def _report_lost_nodes(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            if self._cluster.mark_lost(node):
                self._report(NodeLost(node=node, at_ms=_now_ms()))

    # -- records of attempts -----------------------------------------------------------------------

    def _report_changes(self, attempt: TrackedAttempt) -> None:
        """Report what an attempt's folder records and has not been reported yet."""
        record = attempt.folder.record()
        end = None if attempt.end_reported else record.end
        began_at_ms = None if attempt.began_reported else record.began_at_ms
        state = self._external_end(attempt, end) if end is not None else None
        named: dict[str, Any] = {"job_id": attempt.ref.job_id, "attempt": attempt.ref.attempt}
        with self._lock:
            if began_at_ms is not None and not attempt.began_reported:
                attempt.began_reported = True
                self._report(AttemptStarted(at_ms=began_at_ms, **named), attempt)
            if not attempt.end_reported:
                for report in attempt.status.new_reports():
                    self._report(report, attempt)
            if end is not None and not attempt.end_reported:
                attempt.end_reported = True
                exit_ = exit_of(end, attempt, state)
                self._report(TasksEnded(at_ms=end.at_ms, exit=exit_, **named), attempt)

    def _external_end(self, attempt: TrackedAttempt, record: EndRecord) -> SlurmJobState | None:
        """Slurm's state of a job that was ended by a signal we did not send; Slurm knows it a little later.
        The script may not have received the signal: sometimes only its program did."""
        signalled = bool(record.stop_signal) or split_code(record.code)[1] in EXTERNAL_SIGNALS
        if not signalled or attempt.stop is not None or not attempt.ids:
            return None
        try:
            for _ in range(END_STATE_POLLS):
                state = query_job_states(self._commands, [attempt.main_id]).get(attempt.main_id)
                if state is None or state.is_over:
                    return state
                time.sleep(END_STATE_POLL_SECONDS)
        except EngineFault:
            return None
        return None

    def _record_end(self, attempt: TrackedAttempt, exit_: Exit) -> None:
        """Record an end that the script did not, before reporting it: a repeated report must be equal."""
        folder = attempt.folder
        if folder.record().end is None:
            os.makedirs(folder.path, mode=0o700, exist_ok=True)
            code = exit_.code if exit_.signal is None else 128 + exit_.signal
            folder.write_end(
                EndRecord(at_ms=_now_ms(), code=code, stop_signal="", detail=exit_.detail)
            )
            folder.claim()
        self._report_changes(attempt)

    def _report(self, report: EngineReport, attempt: TrackedAttempt | None = None) -> None:
        if attempt is not None and not attempt.is_live:
            if isinstance(report, TasksEnded):
                attempt.folder.remove_from_index()
                self._tracked.pop(attempt.ref, None)
            return
        self._batch.add(report)

    def settled(self, refs: Iterable[AttemptRef]) -> None:
        """Mark attempts for removal from the index; ``reports`` removes their files, so that the caller
        does not wait. After a crash they are removed at the next start."""
        with self._lock:
            for ref in refs:
                self._tracked.pop(ref, None)
                self._settled.append(ref)

    def _clean_settled(self) -> None:
        """Remove settled attempts from the index. Their claims stay, so they can never run again."""
        with self._lock:
            refs, self._settled = self._settled, []
        for ref in refs:
            self._folders.of(ref).remove_from_index()

    def logs(self, ref: AttemptRef) -> Sequence[LogFile]:
        """Two streams for each task that wrote something."""
        return self._folders.of(ref).logs()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""Submits orders to Slurm from background threads. Each order is stored first, so that it can be resent."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from bursar.background import BackgroundThread
from bursar.engines.slurm.commands import job_query
from bursar.engines.slurm.commands.accounts import Accounts
from bursar.engines.slurm.commands.commands import SlurmRefused
from bursar.engines.slurm.driven import attempt_folder as names
from bursar.engines.slurm.driven.attempt_folder import AttemptFolders
from bursar.engines.slurm.driven.attempt_tracking import TrackedAttempt
from bursar.engines.slurm.driven.cluster_watch import ClusterWatch
from bursar.engines.slurm.driven.request import (
    JobRequest,
    StoredOrder,
    components_of,
    minutes_of,
    no_common_partition,
)
from bursar.engines.slurm.driven.script import ScriptContext, make_scripts
from bursar.engines.slurm.driven.settings import SlurmSettings
from bursar.engines.slurm.driven.submit import Submitter
from bursar.engines.task_ranks import ranked_tasks
from bursar.model.errors import EngineFault
from bursar.model.jobs.attempt import Exit
from bursar.ports import AttemptRef, StartOrder

RESUBMIT_SECONDS = 0.5
REUSED_IDS_SECONDS = 60.0
SENDERS = 3
"""Slurm accepts one job at a time, but the round trip takes longer than that."""
SHELL = "/bin/bash"
"""Without HOME or SHELL, bash looks up its account, on many clusters over the network. The job's own program
gets neither value."""


class Outbox:
    """Stores orders, submits them, and looks up submissions that are in doubt.

    Background threads submit, so the caller does not wait for Slurm. They call ``on_refused``.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        folders: AttemptFolders,
        cluster: ClusterWatch,
        on_refused: Callable[[TrackedAttempt, Exit], None],
    ) -> None:
        self._settings = settings
        self._folders = folders
        self._cluster = cluster
        self._bundles = str((settings.state / "bundles").resolve())
        self._submitter = Submitter(settings.commands, settings.rest_socket)
        self._accounts = Accounts(settings.commands, settings.account)
        self._on_refused = on_refused
        self._queue: queue.SimpleQueue[tuple[TrackedAttempt, StoredOrder | None] | None]
        self._queue = queue.SimpleQueue()
        self._senders: list[BackgroundThread] = []
        self._lock = threading.Lock()
        self._highest_id = 0
        self._ids_reused_at: float | None = None
        self._is_closing = False
        self.prefix = ""
        """Prefix of our jobs' comments; the attempt's key follows."""

    def open(self) -> None:
        self._is_closing = False
        self._accounts.open()
        self._senders = [
            BackgroundThread(f"bursar-slurm-{number}", self._send_next) for number in range(SENDERS)
        ]
        for sender in self._senders:
            sender.start()

    def close(self) -> None:
        """Stop submitting. Unsent orders are stored, and are sent after the next start."""
        self._is_closing = True
        for sender in self._senders:
            sender.stop()
            self._queue.put(None)
        for sender in self._senders:
            sender.close()
        while not self._queue.empty():
            if (item := self._queue.get()) is not None:
                item[0].is_sending = False
        self._submitter.close()

    def ref_of(self, comment: str) -> AttemptRef | None:
        """The attempt of a job, if it is one of ours."""
        if not comment.startswith(self.prefix):
            return None
        return names.ref_of(comment.removeprefix(self.prefix))

    def partition_problem(self, order: StartOrder) -> str:
        """Why no partition can run the attempt, or ""."""
        return no_common_partition(order, self._cluster.facts(), self._settings.partition)

    def write_order(self, order: StartOrder) -> StoredOrder:
        """Store everything that the scripts and a later submission need. Secrets are in a separate file,
        which the script removes before user code runs."""
        facts = self._cluster.facts()
        folder = self._folders.of(order.ref)
        components = components_of(order, facts.nodes)
        context = ScriptContext(
            folder=folder.path,
            key=folder.key,
            messages=self._folders.messages.path,
            bundles=self._bundles,
            path=self._settings.path,
            addresses=facts.addresses,
        )
        scripts = make_scripts(order, context, tuple(one.nodes for one in components))
        partition = facts.partition_of(scripts.nodes, self._settings.partition)
        request = JobRequest(
            name=order.spec.name,
            comment=f"{self.prefix}{folder.key}",
            components=components,
            minutes=minutes_of(order, partition),
            partition=partition.name if partition is not None else self._settings.partition,
            account=self._accounts.of(order.spec.queue),
            qos=self._settings.qos,
            output=folder.file("batch.log"),
            folder=folder.path,
            environment={"PATH": self._settings.path, "HOME": folder.path, "SHELL": SHELL},
        )
        gpus: dict[str, list[int]] = {}
        for task in order.placement.all_tasks:
            gpus.setdefault(task.node, []).extend(task.gpus)
        folder.create(len(scripts.nodes))
        for name, text in scripts.files.items():
            folder.write(name, text)
        stored = StoredOrder(
            request=request,
            script=scripts.batch,
            gpus={node: tuple(held) for node, held in gpus.items()},
            tasks=tuple(member.task.node for member in ranked_tasks(order)),
            grace_seconds=order.recipe.grace_seconds,
            stop_signal=order.recipe.stop_signal,
        )
        folder.write_record(names.SUBMISSION, stored)
        return stored

    def post(self, attempt: TrackedAttempt, order: StoredOrder | None = None) -> None:
        """Queue an attempt for submission, unless it is queued or submitted already."""
        with self._lock:
            if attempt.ids or attempt.is_sending or attempt.end_reported:
                return
            attempt.is_sending = True
        self._queue.put((attempt, order))

    def _send_next(self) -> None:
        if (item := self._queue.get()) is None:
            return
        attempt, order = item
        try:
            if not self._is_closing:
                self._send(attempt, order)
        except (EngineFault, OSError) as problem:
            # Slurm or the shared folder does not respond: retry later.
            pause = problem.retry_after_seconds if isinstance(problem, EngineFault) else 0.0
            attempt.in_doubt = True
            attempt.send_at = time.monotonic() + max(RESUBMIT_SECONDS, pause)
        finally:
            attempt.is_sending = False

    def _send(self, attempt: TrackedAttempt, order: StoredOrder | None) -> None:
        """Submit an attempt unless it is in the queue already. Report a permanent refusal."""
        if attempt.end_reported:
            return
        if attempt.in_doubt:
            self.find_submitted(attempt)
        if attempt.ids:
            return
        try:
            problem = self._submit(attempt, order)
        except SlurmRefused as refused:
            problem = f"not started: {refused}"
        if problem:
            self._on_refused(attempt, Exit(detail=problem))

    def find_submitted(self, attempt: TrackedAttempt) -> None:
        """Look up in the queue whether an earlier submission arrived."""
        for entry in job_query.queue(self._settings.commands):
            if self.ref_of(entry.comment) == attempt.ref:
                attempt.add(entry.id)
        attempt.in_doubt = False

    def _submit(self, attempt: TrackedAttempt, order: StoredOrder | None) -> str:
        """Submit an attempt; returns why it can never be submitted, or ""."""
        order = order or attempt.folder.order()
        if order is None:
            return "lost: its stored order no longer exists"
        attempt.submissions += 1
        before = self._highest_id
        request = order.request
        try:
            slurm_id = self._submitter.submit(request, order.script)
        except SlurmRefused:
            if not self._accounts.exclude(request.account):
                raise
            slurm_id = self._submitter.submit(replace(request, account=""), order.script)
        self._update_highest_id(slurm_id, before)
        attempt.replaced_ids.discard(slurm_id)
        attempt.add(slurm_id)
        return ""

    def seed_highest_id(self, ids: Iterable[str]) -> None:
        """Set the highest id of jobs submitted before the start."""
        known = (int(slurm_id) for slurm_id in ids if slurm_id.isdecimal())
        self._highest_id = max(known, default=self._highest_id)

    def _update_highest_id(self, slurm_id: str, before: int) -> None:
        """Ids only grow, unless slurmctld was killed before saving the last ones. ``before`` is the
        highest id known before this submission: other threads submit too."""
        if not slurm_id.isdecimal():
            return
        with self._lock:
            if int(slurm_id) <= before:
                self._ids_reused_at = time.monotonic()
                self._highest_id = int(slurm_id)
            else:
                self._highest_id = max(self._highest_id, int(slurm_id))

    def has_reused_ids(self) -> bool:
        """Whether Slurm assigned an id twice in the last minute."""
        if self._ids_reused_at is None:
            return False
        return time.monotonic() - self._ids_reused_at < REUSED_IDS_SECONDS

"""Orders on their way into Slurm. Each is written down before it is sent, so that it can be sent again."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

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
    minutes_of,
    no_common_partition,
    parts_of,
    request_from,
)
from bursar.engines.slurm.driven.script import ScriptParts, scripts_of
from bursar.engines.slurm.driven.settings import SlurmSettings
from bursar.engines.slurm.driven.submit import Submitter
from bursar.engines.task_ranks import ranked_tasks
from bursar.model.errors import EngineFault
from bursar.ports import AttemptRef, StartOrder

SEND_AGAIN_SECONDS = 0.5
CONFUSED_SECONDS = 60.0
SENDERS = 3
"""Slurm takes one job at a time, but the way there and back is longer than that."""
SHELL = "/bin/bash"
"""A bash that starts without HOME or SHELL looks its account up, on many clusters over the network. Neither
is what the job's own program gets."""


class Outbox:
    """Writes orders down, sends them, and finds out what became of a doubtful one.

    What is posted is sent by threads: whoever orders need not wait for Slurm. ``refused`` is called by them.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        folders: AttemptFolders,
        cluster: ClusterWatch,
        refused: Callable[[TrackedAttempt, str], None],
    ) -> None:
        self._settings = settings
        self._folders = folders
        self._cluster = cluster
        self._bundles = str((settings.state / "bundles").resolve())
        self._submitter = Submitter(settings.commands, settings.rest_socket)
        self._accounts = Accounts(settings.commands, settings.account)
        self._refused = refused
        self._posted: queue.SimpleQueue[tuple[TrackedAttempt, dict[str, Any] | None] | None]
        self._posted = queue.SimpleQueue()
        self._senders: list[BackgroundThread] = []
        self._lock = threading.Lock()
        self._highest_id = 0
        self._forgot_at: float | None = None
        self._is_closing = False
        self.prefix = ""
        """Of the comments of our jobs. Behind it comes the attempt: the order's id."""

    def open(self) -> None:
        self._is_closing = False
        self._accounts.open()
        self._senders = [
            BackgroundThread(f"bursar-slurm-{number}", self._send_next) for number in range(SENDERS)
        ]
        for sender in self._senders:
            sender.start()

    def close(self) -> None:
        """What is not sent by now is in its folder, and is sent after the next start."""
        self._is_closing = True
        for sender in self._senders:
            sender.stop()
            self._posted.put(None)
        for sender in self._senders:
            sender.close()
        while not self._posted.empty():
            if (posted := self._posted.get()) is not None:
                posted[0].is_sending = False
        self._submitter.close()

    def ref_of(self, comment: str) -> AttemptRef | None:
        """Whose job it is, when it is one of ours."""
        if not comment.startswith(self.prefix):
            return None
        return names.ref_of(comment.removeprefix(self.prefix))

    def cannot_be_one_job(self, order: StartOrder) -> str:
        """Why no partition could run all of an attempt, or nothing."""
        if order.placement.anchors is None:
            return ""
        return no_common_partition(order, self._cluster.facts(), self._settings.partition)

    def write_down(self, order: StartOrder) -> dict[str, Any]:
        """Everything that the scripts and a later submission need. Secrets are in one file of their own,
        which the script removes before anything of the user runs."""
        facts = self._cluster.facts()
        folder = self._folders.of(order.ref)
        parts = parts_of(order, facts.nodes)
        around = ScriptParts(
            folder=folder.path,
            key=folder.key,
            news=self._folders.news.path,
            bundles=self._bundles,
            path=self._settings.path,
            addresses=self._cluster.addresses,
        )
        scripts = scripts_of(order, around, tuple(part.nodes for part in parts))
        partition = facts.partition_of(scripts.nodes, self._settings.partition)
        request = JobRequest(
            name=order.spec.name,
            comment=f"{self.prefix}{folder.key}",
            parts=parts,
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
        folder.make(len(scripts.nodes))
        for name, text in scripts.files.items():
            folder.write(name, text)
        record = {
            "request": request.as_record(),
            "script": scripts.batch,
            "gpus": gpus,
            "tasks": [seat.task.node for seat in ranked_tasks(order)],
            "grace_seconds": order.recipe.grace_seconds,
            "stop_signal": order.recipe.stop_signal,
        }
        folder.keep(names.SUBMISSION, record)
        return record

    def post(self, followed: TrackedAttempt, record: dict[str, Any] | None = None) -> None:
        """Have it submitted, once, unless it is on its way already."""
        with self._lock:
            if followed.ids or followed.is_sending or followed.told_ended:
                return
            followed.is_sending = True
        self._posted.put((followed, record))

    def _send_next(self) -> None:
        if (posted := self._posted.get()) is None:
            return
        followed, record = posted
        try:
            if not self._is_closing:
                self._send(followed, record)
        except (EngineFault, OSError) as problem:
            # Slurm does not answer, or the folder does not: that passes, and this is sent later.
            pause = problem.retry_after_seconds if isinstance(problem, EngineFault) else 0.0
            followed.in_doubt = True
            followed.send_at = time.monotonic() + max(SEND_AGAIN_SECONDS, pause)
        finally:
            followed.is_sending = False

    def _send(self, followed: TrackedAttempt, record: dict[str, Any] | None) -> None:
        """Submit it unless it is there; what Slurm will never have is told to whom it concerns."""
        if followed.told_ended:
            return
        if followed.in_doubt:
            self.look_up(followed)
        if followed.ids:
            return
        try:
            never = self._submit(followed, record)
        except SlurmRefused as refused:
            never = f"not started: {refused}"
        if never:
            self._refused(followed, never)

    def look_up(self, followed: TrackedAttempt) -> None:
        """Whether an earlier submission arrived."""
        for line in job_query.queue(self._settings.commands):
            if self.ref_of(line.comment) == followed.ref:
                followed.add(line.id)
        followed.in_doubt = False

    def _submit(self, followed: TrackedAttempt, record: dict[str, Any] | None) -> str:
        """Why it never can be submitted, or nothing."""
        record = record or followed.folder.read(names.SUBMISSION)
        if record is None:
            return "lost: what it should run is not there any more"
        followed.submissions += 1
        before = self._highest_id
        request = request_from(record["request"])
        try:
            ident = self._submitter.submit(request, record["script"])
        except SlurmRefused:
            if not self._accounts.give_up(request.account):
                raise
            ident = self._submitter.submit(replace(request, account=""), record["script"])
        self._note_id(ident, before)
        followed.given_up.discard(ident)
        followed.add(ident)
        return ""

    def know_ids(self, ids: Iterable[str]) -> None:
        """Of jobs from before."""
        known = (int(ident) for ident in ids if ident.isdecimal())
        self._highest_id = max(known, default=self._highest_id)

    def _note_id(self, ident: str, before: int) -> None:
        """Ids only grow, unless slurmctld was killed before it had saved which it gave away. ``before`` is
        the highest that was known when this one was asked for: others may have come meanwhile."""
        if not ident.isdecimal():
            return
        with self._lock:
            if int(ident) <= before:
                self._forgot_at = time.monotonic()
                self._highest_id = int(ident)
            else:
                self._highest_id = max(self._highest_id, int(ident))

    def has_slurm_forgotten(self) -> bool:
        """Whether ids were given away twice in the last minute."""
        return self._forgot_at is not None and time.monotonic() - self._forgot_at < CONFUSED_SECONDS

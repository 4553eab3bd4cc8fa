"""Ending Slurm jobs: a signal to their scripts, then to everything of theirs when the grace is over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from bursar.engines.slurm.commands.commands import Commands, SlurmRefused
from bursar.engines.slurm.driven.attempt_folder import SUBMISSION
from bursar.engines.slurm.driven.attempt_tracking import TrackedAttempt
from bursar.engines.slurm.driven.outbox import Outbox


class Stopper:
    """Everything here may be repeated: what is gone already is as good."""

    def __init__(self, commands: Commands, outbox: Outbox) -> None:
        self._commands = commands
        self._outbox = outbox

    def ids(self, followed: TrackedAttempt) -> list[str]:
        """Of its Slurm jobs, also of one whose submission was doubtful."""
        if not followed.ids and followed.in_doubt:
            self._outbox.look_up(followed)
        return list(followed.ids)

    def press(self, followed: TrackedAttempt) -> None:
        """Ask once; kill when the grace is over, and again until it is gone."""
        stop = followed.stop
        assert stop is not None
        if time.monotonic() >= stop.kill_at:
            self._signal(followed, "KILL", "--full")
            stop.killed = stop.asked = True
        elif not stop.asked:
            self._signal(followed, terms_of(followed)["stop_signal"], "--batch")
            stop.asked = True

    def _signal(self, followed: TrackedAttempt, name: str, whom: str) -> None:
        ids = self.ids(followed)
        if ids:
            self._scancel(whom, f"--signal={name.removeprefix('SIG')}", *ids)

    def cancel(self, ids: Sequence[str]) -> None:
        """What must not run any more: what waits goes at once, what runs is told and then killed."""
        if ids:
            self._scancel(*ids)

    def _scancel(self, *words: str) -> None:
        try:
            self._commands.run("scancel", *words)
        except SlurmRefused:
            return


def terms_of(followed: TrackedAttempt) -> dict[str, Any]:
    """How the job wants to be stopped, as its order said."""
    record = followed.folder.read(SUBMISSION) or {}
    return {
        "grace_seconds": record.get("grace_seconds", 0),
        "stop_signal": record.get("stop_signal", "SIGTERM"),
    }

"""Stops Slurm jobs: a signal to their scripts, then SIGKILL to all processes after the grace period."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bursar.engines.slurm.commands.commands import Commands, SlurmRefused
from bursar.engines.slurm.driven.attempt_tracking import TrackedAttempt
from bursar.engines.slurm.driven.outbox import Outbox


class Stopper:
    """Sends signals to Slurm jobs. All calls are idempotent."""

    def __init__(self, commands: Commands, outbox: Outbox) -> None:
        self._commands = commands
        self._outbox = outbox

    def ids(self, attempt: TrackedAttempt) -> list[str]:
        """Its Slurm jobs, including one whose submission was in doubt."""
        if not attempt.ids and attempt.in_doubt:
            self._outbox.find_submitted(attempt)
        return list(attempt.ids)

    def apply_stop(self, attempt: TrackedAttempt) -> None:
        """Send the stop signal once; after the grace period send SIGKILL, repeatedly."""
        stop = attempt.stop
        assert stop is not None
        if time.monotonic() >= stop.kill_at:
            self._signal(attempt, "KILL", "--full")
            stop.kill_sent = stop.signal_sent = True
        elif not stop.signal_sent:
            self._signal(attempt, attempt.stop_signal, "--batch")
            stop.signal_sent = True

    def _signal(self, attempt: TrackedAttempt, name: str, scope: str) -> None:
        ids = self.ids(attempt)
        if ids:
            self._scancel(scope, f"--signal={name.removeprefix('SIG')}", *ids)

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs: pending ones at once, running ones with Slurm's own grace period."""
        if ids:
            self._scancel(*ids)

    def _scancel(self, *arguments: str) -> None:
        try:
            self._commands.run("scancel", *arguments)
        except SlurmRefused:
            return

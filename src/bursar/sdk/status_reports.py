"""Tells Bursar what was saved, resumed and reached, so that it knows what a stop would lose.

One line of JSON for each fact, appended to the file that ``BURSAR_SAVED_FILE`` names. Outside Bursar there
is no such variable and nothing is told. A line is one write, so a kill leaves it whole or not there; what
cannot be written is lost, for training matters more than what is known about it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

FILE = "BURSAR_SAVED_FILE"
PROGRESS_EVERY_SECONDS = 5.0
"""Progress is told at most so often: jobs call it every step, and the file is kept for their whole life."""


class StatusReporter:
    """Appends to the file of this attempt. Silent for all ranks but the one that saves."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._next_progress = 0.0

    def saved(self, step: int | None, at_ms: int, size_bytes: int, seconds: float) -> None:
        """After it is durable, never before."""
        about = {"bytes": size_bytes, "seconds": round(seconds, 3)}
        self._tell("saved", step, at_ms, about)

    def resumed(self, step: int | None, size_bytes: int, seconds: float) -> None:
        about = {"bytes": size_bytes, "seconds": round(seconds, 3)}
        self._tell("resumed", step, now_ms(), about)

    def stopping(self, source: str, at_ms: int, ends_at_ms: int | None) -> None:
        """It was asked to stop. Bursar knows if it was Bursar, and learns it if it was somebody else."""
        known = {} if ends_at_ms is None else {"ends_at_ms": ends_at_ms}
        self._tell("stopping", None, at_ms, {"source": source, **known})

    def progress(self, step: int, total: int | None) -> None:
        now = time.monotonic()
        if now < self._next_progress and step != total:
            return
        self._next_progress = now + PROGRESS_EVERY_SECONDS
        self._tell("progress", step, now_ms(), {} if total is None else {"total": int(total)})

    def _tell(
        self, kind: str, step: int | None, at_ms: int, more: Mapping[str, int | float | str]
    ) -> None:
        if not self._path:
            return
        known = {} if step is None else {"step": int(step)}
        line = json.dumps({"kind": kind, **known, "at_ms": at_ms, **more}) + "\n"
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        try:
            os.write(fd, line.encode())
        except OSError:
            return
        finally:
            os.close(fd)


def who_stops_jobs() -> str:
    """Who sends stop signals here besides Bursar, by the variables that each of them sets."""
    if "SLURM_JOB_ID" in os.environ:
        return "slurm"
    return "kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else "signal"


def now_ms() -> int:
    return time.time_ns() // 1_000_000

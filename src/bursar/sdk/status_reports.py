"""Reports saves, resumes and progress to Bursar, which then knows what a stop would lose.

One line of JSON for each report, appended to the file that ``BURSAR_SAVED_FILE`` names. Outside Bursar the
variable is not set and nothing is reported. A line is one write, so a kill leaves all of it or nothing.
Write errors are ignored: training matters more than its reports.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

FILE = "BURSAR_SAVED_FILE"
PROGRESS_EVERY_SECONDS = 5.0
"""Progress is reported at most this often: jobs call it every step, and the file grows with each report."""


class StatusReporter:
    """Appends to the report file of this attempt; without a path it does nothing."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._next_progress = 0.0

    def saved(self, step: int | None, at_ms: int, size_bytes: int, seconds: float) -> None:
        """Report a save; call it only after the checkpoint is durable."""
        self._report("saved", step, at_ms, {"bytes": size_bytes, "seconds": round(seconds, 3)})

    def resumed(self, step: int | None, size_bytes: int, seconds: float) -> None:
        self._report("resumed", step, now_ms(), {"bytes": size_bytes, "seconds": round(seconds, 3)})

    def stopping(self, source: str, at_ms: int, ends_at_ms: int | None) -> None:
        """Report a stop request, which Bursar may not know of if it came from elsewhere."""
        end = {} if ends_at_ms is None else {"ends_at_ms": ends_at_ms}
        self._report("stopping", None, at_ms, {"source": source, **end})

    def progress(self, step: int, total: int | None) -> None:
        now = time.monotonic()
        if now < self._next_progress and step != total:
            return
        self._next_progress = now + PROGRESS_EVERY_SECONDS
        self._report("progress", step, now_ms(), {} if total is None else {"total": int(total)})

    def _report(
        self, kind: str, step: int | None, at_ms: int, fields: Mapping[str, int | float | str]
    ) -> None:
        if not self._path:
            return
        step_field = {} if step is None else {"step": int(step)}
        line = json.dumps({"kind": kind, **step_field, "at_ms": at_ms, **fields}) + "\n"
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


def stop_source() -> str:
    """What sends stop signals here besides Bursar, detected by environment variables."""
    if "SLURM_JOB_ID" in os.environ:
        return "slurm"
    return "kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else "signal"


def now_ms() -> int:
    return time.time_ns() // 1_000_000

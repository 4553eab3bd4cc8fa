"""What jobs say of themselves: the file that ``BURSAR_SAVED_FILE`` names, read while it grows.

Touching the file says that the work up to now is safe. A line of JSON says more: ``kind`` is ``saved``,
``resumed``, ``progress`` or ``stopping``, with ``at_ms`` and, when known, ``step``, ``total``, ``bytes``,
``seconds``, ``source`` and ``ends_at_ms``.
The file is the user's: whatever stands in it, reading is bounded, never waits and never fails.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from bursar.model.engine_report import CheckpointReported, Progressed, Resumed, StopAcknowledged
from bursar.ports import AttemptRef

MOST_BYTES = 1 << 20
"""Read at most so much at once, from the end: only the newest of each kind matters."""
MOST_NUMBER = 1 << 62
MOST_SOURCE = 40

Told = CheckpointReported | Resumed | Progressed | StopAcknowledged


class StatusFile:
    """One attempt's file, and how far it was read."""

    __slots__ = ("_offset", "_path", "_ref", "_seen")

    def __init__(self, path: str, ref: AttemptRef) -> None:
        self._path = path
        self._ref = ref
        self._offset = 0
        self._seen = (0, 0)

    def news(self) -> list[Told]:
        """The newest of each kind since the last look, in the order in which they were said."""
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(self._path, flags)
        except OSError:
            return []
        try:
            return self._read(fd)
        except OSError:
            return []
        finally:
            os.close(fd)

    def _read(self, fd: int) -> list[Told]:
        status = os.fstat(fd)
        seen = (status.st_mtime_ns, status.st_size)
        if not stat.S_ISREG(status.st_mode) or seen == self._seen:
            return []
        self._seen = seen
        if status.st_size < self._offset:
            self._offset = 0
        start = max(self._offset, status.st_size - MOST_BYTES)
        whole, end, rest = os.pread(fd, status.st_size - start, start).rpartition(b"\n")
        self._offset = start + len(whole) + len(end)
        said = [line for line in map(_parsed, whole.split(b"\n")) if line is not None]
        if not said and not rest.startswith(b"{"):
            return [CheckpointReported(at_ms=status.st_mtime_ns // 1_000_000, **self._named())]
        newest: dict[str, Told] = {}
        for line in said:
            told = self._understand(line)
            if told is not None:
                newest.pop(line["kind"], None)
                newest[line["kind"]] = told
        return list(newest.values())

    def _understand(self, said: dict[str, Any]) -> Told | None:
        """None for what a later version says, and for what makes no sense."""
        at_ms, step = _number(said, "at_ms"), _number(said, "step")
        if at_ms is None:
            return None
        about = {**self._named(), "at_ms": at_ms}
        took_ms = _milliseconds(said)
        match said["kind"]:
            case "saved":
                size_bytes = _number(said, "bytes")
                return CheckpointReported(
                    **about, step=step, save_ms=took_ms, size_bytes=size_bytes
                )
            case "resumed":
                return Resumed(**about, step=step, load_ms=took_ms)
            case "stopping":
                source = str(said.get("source", ""))[:MOST_SOURCE] or "signal"
                return StopAcknowledged(
                    **about, source=source, ends_at_ms=_number(said, "ends_at_ms")
                )
            case "progress" if step is not None:
                return Progressed(**about, step=step, total=_number(said, "total"))
        return None

    def _named(self) -> dict[str, Any]:
        return {"job_id": self._ref.job_id, "attempt": self._ref.attempt}


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A line of ours, or None."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and "kind" in said else None


def _number(said: dict[str, Any], name: str) -> int | None:
    value = said.get(name)
    return value if type(value) is int and 0 <= value < MOST_NUMBER else None


def _milliseconds(said: dict[str, Any]) -> int | None:
    value = said.get("seconds")
    if not isinstance(value, int | float) or not 0 <= value < MOST_NUMBER:
        return None
    return round(value * 1_000)

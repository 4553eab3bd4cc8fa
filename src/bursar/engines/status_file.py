"""Reads the status file of a job (``BURSAR_SAVED_FILE``) while the job writes it.

Touching the file reports that the work so far is saved. A line of JSON reports more: ``kind`` is ``saved``,
``resumed``, ``progress`` or ``stopping``, with ``at_ms`` and optionally ``step``, ``total``, ``bytes``,
``seconds``, ``source`` and ``ends_at_ms``.
Users write this file, so reading is bounded, never blocks and never fails.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from bursar.model.engine_report import Progressed, StopAcknowledged
from bursar.model.event import AttemptResumed, CheckpointSaved
from bursar.ports import AttemptRef

MOST_BYTES = 1 << 20
"""Read at most this much at once, from the end: only the newest line of each kind matters."""
MOST_NUMBER = 1 << 62
MOST_SOURCE = 40

StatusReport = CheckpointSaved | AttemptResumed | Progressed | StopAcknowledged


class StatusFile:
    """The status file of one attempt, and how far it has been read."""

    __slots__ = ("_last_stat", "_offset", "_path", "_ref")

    def __init__(self, path: str, ref: AttemptRef) -> None:
        self._path = path
        self._ref = ref
        self._offset = 0
        self._last_stat = (0, 0)

    def new_reports(self) -> list[StatusReport]:
        """The newest report of each kind since the last call, in the order of the file."""
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

    def _read(self, fd: int) -> list[StatusReport]:
        status = os.fstat(fd)
        current_stat = (status.st_mtime_ns, status.st_size)
        if not stat.S_ISREG(status.st_mode) or current_stat == self._last_stat:
            return []
        self._last_stat = current_stat
        if status.st_size < self._offset:
            self._offset = 0
        start = max(self._offset, status.st_size - MOST_BYTES)
        lines, end, rest = os.pread(fd, status.st_size - start, start).rpartition(b"\n")
        self._offset = start + len(lines) + len(end)
        records = [record for record in map(_parse, lines.split(b"\n")) if record is not None]
        if not records and not rest.startswith(b"{"):
            return [CheckpointSaved(at_ms=status.st_mtime_ns // 1_000_000, **self._attempt())]
        newest: dict[str, StatusReport] = {}
        for record in records:
            report = self._report(record)
            if report is not None:
                newest.pop(record["kind"], None)
                newest[record["kind"]] = report
        return list(newest.values())

    def _report(self, record: dict[str, Any]) -> StatusReport | None:
        """None for an unknown kind (a later version) or invalid values."""
        at_ms, step = _number(record, "at_ms"), _number(record, "step")
        if at_ms is None:
            return None
        common = {**self._attempt(), "at_ms": at_ms}
        match record["kind"]:
            case "saved":
                save_ms, size_bytes = _milliseconds(record), _number(record, "bytes")
                return CheckpointSaved(**common, step=step, save_ms=save_ms, size_bytes=size_bytes)
            case "resumed":
                return AttemptResumed(**common, step=step)
            case "stopping":
                source = str(record.get("source", ""))[:MOST_SOURCE] or "signal"
                return StopAcknowledged(
                    **common, source=source, ends_at_ms=_number(record, "ends_at_ms")
                )
            case "progress" if step is not None:
                return Progressed(**common, step=step, total=_number(record, "total"))
        return None

    def _attempt(self) -> dict[str, Any]:
        return {"job_id": self._ref.job_id, "attempt": self._ref.attempt}


def _parse(line: bytes) -> dict[str, Any] | None:
    """A status record, or None for any other line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "kind" in record else None


def _number(record: dict[str, Any], name: str) -> int | None:
    value = record.get(name)
    return value if type(value) is int and 0 <= value < MOST_NUMBER else None


def _milliseconds(record: dict[str, Any]) -> int | None:
    value = record.get("seconds")
    if not isinstance(value, int | float) or not 0 <= value < MOST_NUMBER:
        return None
    return round(value * 1_000)

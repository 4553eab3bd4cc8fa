"""Recorded history as JSON lines: what happened, and the fleet on which it happened.

The first line is a header with a version, the fleet, its tenants and its policies; every other line is
one event. Together they rebuild a run, and a run with one thing changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from bursar.model.errors import UserError
from bursar.model.event import Event
from bursar.model.fleet import Fleet
from bursar.model.plain_values import TAG, NotThatValue, from_plain, to_plain
from bursar.model.policy import Policies
from bursar.model.tenant import Tenant

VERSION = 1
VERSION_KEY = "bursar_event_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A fleet as it was at the beginning, and everything that happened to it, in order."""

    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies
    events: Iterable[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvents:
    """The events of a file, read anew each time they are gone through: a long history is never held."""

    path: Path

    def __iter__(self) -> Iterator[Event]:
        with _opened(self.path) as file:
            yield from read_events(file)


# -- writing -----------------------------------------------------------------------------------------


def write_run(run: RecordedRun, file: TextIO) -> int:
    """Write the header and every event; says how many events there were."""
    header = _Header(fleet=run.fleet, tenants=run.tenants, policies=run.policies)
    file.write(_line({VERSION_KEY: VERSION, **to_plain(_Header)(header)}))
    return write_events(run.events, file)


def write_events(events: Iterable[Event], file: TextIO) -> int:
    """Write events one to a line, without a header, so that a log can be gone on with."""
    convert = to_plain(Event)
    count = 0
    for event in events:
        file.write(_line(convert(event)))
        count += 1
    return count


def _line(plain: Any) -> str:
    return json.dumps(plain, separators=(",", ":"), allow_nan=False) + "\n"


# -- reading -----------------------------------------------------------------------------------------


def read_run(path: Path) -> RecordedRun:
    """The header of a log now; its events when they are gone through."""
    with _opened(path) as file:
        first = next(_lines(file, str(path)), "")
    plain = _parsed(first, str(path), 1) if first.strip() else {}
    if not isinstance(plain, dict) or VERSION_KEY not in plain:
        raise UserError(
            f"{path}:1: this is not the header of an event log.",
            fix=f"The first line must say {VERSION_KEY!r}, the fleet, its tenants and policies.",
            code="not-an-event-log",
        )
    version = plain.pop(VERSION_KEY)
    if version != VERSION:
        raise UserError(
            f"{path}:1: the log has version {str(version)[:20]!r}; this program reads {VERSION}.",
            fix="Read it with the version of Bursar that wrote it, or a newer one.",
            code="event-log-version",
        )
    header = _converted(_Header, plain, str(path), 1)
    return RecordedRun(
        fleet=header.fleet,
        tenants=header.tenants,
        policies=header.policies,
        events=LoggedEvents(path=path),
    )


def read_events(file: TextIO) -> Iterator[Event]:
    """The events of a log, one by one; a header before them is passed over."""
    name = str(getattr(file, "name", "<events>"))
    for number, line in enumerate(_lines(file, name), start=1):
        if not line.strip():
            continue
        plain = _parsed(line, name, number)
        if number == 1 and isinstance(plain, dict) and VERSION_KEY in plain:
            continue
        yield _converted(Event, plain, name, number)


def _lines(file: TextIO, name: str) -> Iterator[str]:
    given = 0
    try:
        for line in file:
            given += 1
            yield line
    except UnicodeDecodeError as error:
        raise _bad_line(name, given + 1, "it is not a text in UTF-8") from error


def _parsed(line: str, file: str, number: int) -> Any:
    try:
        return json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        if not line.endswith("\n"):
            reason = f"the last line was not written to its end ({reason})"
        raise _bad_line(file, number, reason) from error


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number of JSON")


def _converted(declared: Any, plain: Any, file: str, number: int) -> Any:
    try:
        return from_plain(declared)(plain)
    except NotThatValue as error:
        event = plain.get(TAG, "") if isinstance(plain, dict) else ""
        subject = f"{event}: " if isinstance(event, str) and event and error.path else ""
        raise _bad_line(file, number, f"{subject}{error}") from error


def _bad_line(file: str, number: int, reason: str) -> UserError:
    return UserError(
        f"{file}:{number}: this line is not an event: {reason}.",
        fix="Put the line right or cut the log before it; nothing after it was read.",
        code="bad-event-line",
    )


def _opened(path: Path) -> TextIO:
    try:
        return path.open(encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror or error}.",
            fix="Check the path and its permissions.",
            code="no-event-log",
        ) from error

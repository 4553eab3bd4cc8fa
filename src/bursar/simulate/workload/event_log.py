"""The event log of a run as JSON lines.

The first line is a header with a version, the fleet, its tenants and its policies; every other line is
one event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from bursar.codec import (
    MalformedText,
    UnreadableValue,
    event_of,
    event_text,
    from_text,
    to_text,
)
from bursar.model.errors import UserError
from bursar.model.event import BillReceived, Event, FleetDeclared
from bursar.model.fleet.fleet import Fleet
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant

VERSION = 2
VERSION_KEY = "bursar_event_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A fleet at the beginning of a run, and the events of the run in order."""

    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies
    events: Iterable[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    bursar_event_log: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    bursar_event_log: int = VERSION
    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvents:
    """The events of a file; each iteration reads it again, so that it is never held in memory."""

    path: Path

    def __iter__(self) -> Iterator[Event]:
        with _opened(self.path) as file:
            yield from read_events(file)


# -- writing -----------------------------------------------------------------------------------------


def write_run(run: RecordedRun, file: TextIO) -> int:
    """Writes the header and every event; returns the number of events."""
    header = _Header(fleet=run.fleet, tenants=run.tenants, policies=run.policies)
    file.write(f"{to_text(header)}\n")
    return write_events(run.events, file)


def write_events(events: Iterable[Event], file: TextIO) -> int:
    """Appends events, one a line, without a header; returns their number."""
    count = 0
    for event in events:
        file.write(f"{event_text(event)}\n")
        count += 1
    return count


# -- reading -----------------------------------------------------------------------------------------


def read_run(path: Path) -> RecordedRun:
    """Reads the header of a log now, and its events lazily."""
    with _opened(path) as file:
        first = next(_lines(file, str(path)), "")
    with _as_bad_line(str(path), 1, first):
        version = from_text(_Version, first or "{}").bursar_event_log
    if version is None:
        raise UserError(
            f"{path}:1: this is not the header of an event log.",
            fix=f"The first line must have {VERSION_KEY!r}, the fleet, its tenants and policies.",
            code="not-an-event-log",
        )
    if version != VERSION:
        raise UserError(
            f"{path}:1: the log has version {version}; this program reads {VERSION}.",
            fix="Read it with the version of Bursar that wrote it.",
            code="event-log-version",
        )
    with _as_bad_line(str(path), 1, first):
        header = from_text(_Header, first)
    return RecordedRun(
        fleet=header.fleet,
        tenants=header.tenants,
        policies=header.policies,
        events=LoggedEvents(path=path),
    )


def read_events(file: TextIO) -> Iterator[Event]:
    """The events of a log, one by one, without the header."""
    name = str(getattr(file, "name", "<events>"))
    for number, line in enumerate(_lines(file, name), start=1):
        if not line.strip():
            continue
        with _as_bad_line(name, number, line):
            if number == 1 and is_header(line):
                continue
            event = simulated_event(line)
        yield event


def is_header(line: str) -> bool:
    """Whether a line is the header of a log."""
    return VERSION_KEY in line and from_text(_Version, line).bursar_event_log is not None


def simulated_event(text: str) -> Event:
    """Parses an event; fleet declarations and bills are not events of a simulation."""
    event = event_of(text)
    if isinstance(event, FleetDeclared | BillReceived):
        raise UnreadableValue(f"{type(event).__name__} is not an event of a simulation")
    return event


def _lines(file: TextIO, name: str) -> Iterator[str]:
    count = 0
    try:
        for line in file:
            count += 1
            yield line
    except UnicodeDecodeError as error:
        raise _bad_line(name, count + 1, "it is not UTF-8 text") from error


@contextmanager
def _as_bad_line(file: str, number: int, line: str) -> Iterator[None]:
    try:
        yield
    except MalformedText as error:
        is_cut = not line.endswith("\n")
        reason = f"the last line is incomplete ({error})" if is_cut else str(error)
        raise _bad_line(file, number, reason) from error
    except UnreadableValue as error:
        raise _bad_line(file, number, str(error)) from error


def _bad_line(file: str, number: int, reason: str) -> UserError:
    return UserError(
        f"{file}:{number}: this line is not an event: {reason}.",
        fix="Correct the line, or truncate the log before it; nothing after it was read.",
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

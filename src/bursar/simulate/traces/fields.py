"""Strict parsers of single fields; an invalid value rejects its row only."""

from __future__ import annotations

from datetime import datetime
from typing import Final

DAY_MS: Final = 86_400_000

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  subtracted from times without a zone

_OUTCOMES: Final = {
    "completed": "succeeded",
    "terminated": "succeeded",
    "pass": "succeeded",
    "canceled": "cancelled",
    "killed": "cancelled",
    "node_fail": "node-failed",
    "out_of_memory": "failed",
    "pending": "never-ran",
    "waiting": "never-ran",
}


class RowProblem(ValueError):
    """An invalid value in a row; the message goes to the user."""


def parse_count(text: str, column: str, least: int = 0) -> int:
    """Parses a whole number; ``8.0`` is 8, ``8.5`` is rejected."""
    try:
        count = int(text)
    except ValueError:
        count = _parse_whole_float(text, column)
    if count < least:
        raise RowProblem(f"{column} is {text}, less than {least}")
    return count


def parse_scaled(text: str, column: str, factor: int) -> int:
    """Parses an amount into a smaller unit: ``parse_scaled("0.5", "num_gpu", 1_000)`` is 500."""
    try:
        amount = round(float(text) * factor)
    except (ValueError, OverflowError):
        raise _not_a_number(text, column) from None
    if amount < 0:
        raise RowProblem(f"{column} is {text}, less than 0")
    return amount


def parse_seconds(text: str, column: str) -> int:
    """Parses seconds into milliseconds."""
    try:
        time_ms = float(text) * 1_000
        # Rounds half up. This is twice as fast as round(), and most fields of a trace are times.
        rounded_ms = int(time_ms + 0.5)
    except (ValueError, OverflowError):
        raise _not_a_number(text, column) from None
    if time_ms < 0:
        raise RowProblem(f"{column} is {text}, before 0")
    return rounded_ms


def parse_time(text: str, column: str) -> int:
    """Parses a date and time, or seconds since 1970, into milliseconds since 1970.

    No zone means UTC.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        if text.isdigit():
            return int(text) * 1_000
        raise RowProblem(f"{column} is {text!r}, not a date and time") from None
    if time.tzinfo is None:
        return _ms_since_1970(time)
    offset = time.utcoffset()
    assert offset is not None, "a time with a zone has an offset"
    return _ms_since_1970(time.replace(tzinfo=None)) - round(offset.total_seconds() * 1_000)


def elapsed_ms(start_ms: int, end_ms: int, what: str = "end") -> int:
    """Returns the time from start to end; rejects an end before the start."""
    if end_ms < start_ms:
        raise RowProblem(f"{what} is {(start_ms - end_ms) / 1_000:g} s before its start")
    return end_ms - start_ms


def required(text: str, column: str) -> str:
    """Returns the text; rejects an empty field."""
    if not text:
        raise RowProblem(f"{column} is empty")
    return text


def per_node(total: int, nodes: int) -> tuple[int, int]:
    """Returns the tasks and the GPUs of each; an uneven split is one task, as the split is not known."""
    if nodes > 1 and total % nodes == 0:
        return nodes, total // nodes
    return 1, total


def parse_outcome(state: str) -> str:
    """Parses how a job ended into one vocabulary; an unknown state is returned as it is."""
    name = state.split(" ", 1)[0].lower()
    return _OUTCOMES.get(name, name)


def _ms_since_1970(time: datetime) -> int:
    since = time - _EPOCH
    time_ms = since.days * DAY_MS + since.seconds * 1_000
    return time_ms + round(since.microseconds / 1_000) if since.microseconds else time_ms


def _parse_whole_float(text: str, column: str) -> int:
    try:
        number = float(text)
    except ValueError:
        raise _not_a_number(text, column) from None
    if not number.is_integer():
        raise RowProblem(f"{column} is {text}, not a whole number")
    return int(number)


def _not_a_number(text: str, column: str) -> RowProblem:
    if not text:
        return RowProblem(f"{column} is empty")
    return RowProblem(f"{column} is {text!r}, not a number")

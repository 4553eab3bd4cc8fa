"""One field of a row, read strictly: a value that makes no sense is a problem of that row alone."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

DAY_MS: Final = 86_400_000

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  it is taken from moments that have lost their zone
_CLOCK: Final = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")

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
    """What is wrong with a row, in words that its author understands."""


def whole(text: str, column: str, least: int = 0) -> int:
    """A count. ``8.0`` is eight; half a task is a problem."""
    try:
        count = int(text)
    except ValueError:
        count = _whole_of_fraction(text, column)
    if count < least:
        raise RowProblem(f"{column} is {text}, less than {least}")
    return count


def scaled(text: str, column: str, factor: int) -> int:
    """An amount in a smaller unit: ``scaled("0.5", "num_gpu", 1_000)`` is 500."""
    try:
        amount = round(float(text) * factor)
    except (ValueError, OverflowError):
        raise _not_a_number(text, column) from None
    if amount < 0:
        raise RowProblem(f"{column} is {text}, less than 0")
    return amount


def seconds(text: str, column: str) -> int:
    """A time in seconds, as milliseconds."""
    try:
        time_ms = float(text) * 1_000
        # Half a millisecond goes up. This is twice as fast as round(), and most of a trace is times.
        rounded_ms = int(time_ms + 0.5)
    except (ValueError, OverflowError):
        raise _not_a_number(text, column) from None
    if time_ms < 0:
        raise RowProblem(f"{column} is {text}, before 0")
    return rounded_ms


def moment(text: str, column: str) -> int:
    """A date and time, or seconds since 1970, as milliseconds since 1970. No zone means UTC."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        if text.isdigit():
            return int(text) * 1_000
        raise RowProblem(f"{column} is {text!r}, not a date and time") from None
    if when.tzinfo is None:
        return _since_1970(when)
    offset = when.utcoffset()
    assert offset is not None, "what fromisoformat() finds a zone for has an offset"
    return _since_1970(when.replace(tzinfo=None)) - round(offset.total_seconds() * 1_000)


def clock(text: str, column: str) -> int:
    """A duration as Slurm writes it: ``[days-][hours:]minutes:seconds``."""
    parts = _CLOCK.fullmatch(text)
    if parts is None:
        raise RowProblem(f"{column} is {text!r}, not a duration like 1-02:03:04")
    days, hours, minutes, rest = parts.groups(default="0")
    whole_seconds = (int(days) * 24 + int(hours)) * 3_600 + int(minutes) * 60
    return whole_seconds * 1_000 + round(float(rest) * 1_000)


def between(start_ms: int, end_ms: int, what: str = "end") -> int:
    """How long it ran. Nothing ends before it starts."""
    if end_ms < start_ms:
        raise RowProblem(f"{what} is {(start_ms - end_ms) / 1_000:g} s before its start")
    return end_ms - start_ms


def required(text: str, column: str) -> str:
    """A name that must be there."""
    if not text:
        raise RowProblem(f"{column} is empty")
    return text


def per_node(total: int, nodes: int) -> tuple[int, int]:
    """Tasks, and GPUs of each. An uneven split stays one task: how it was split is not known."""
    if nodes > 1 and total % nodes == 0:
        return nodes, total // nodes
    return 1, total


def outcome(state: str) -> str:
    """How it ended, in one vocabulary for all formats. A word we do not know is kept."""
    word = state.split(" ", 1)[0].lower()
    return _OUTCOMES.get(word, word)


def _since_1970(when: datetime) -> int:
    since = when - _EPOCH
    time_ms = since.days * DAY_MS + since.seconds * 1_000
    return time_ms + round(since.microseconds / 1_000) if since.microseconds else time_ms


def _whole_of_fraction(text: str, column: str) -> int:
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

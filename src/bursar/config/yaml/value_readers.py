"""Readers of single plain values: texts, numbers, times, lists and mappings.

Jobs are submitted by the thousand, so values are not wrapped: a reader takes a plain value and
returns what it means, or raises ``InvalidValue``. The path is added as the exception propagates, so
it costs nothing for valid input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from decimal import Decimal
from math import isfinite
from typing import Any

from bursar.config.yaml.yaml_text import Path
from bursar.core.admission.problem import suggest
from bursar.core.admission.value_limits import LARGEST
from bursar.model.errors import UserError
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

Read = Callable[[Any], Any]
MOST_SCRIPT = 1 << 19
"""Characters of commands."""
UNITS_MS = {
    "ms": 1,
    "s": SECOND_MS,
    "min": MINUTE_MS,
    "h": HOUR_MS,
    "d": DAY_MS,
    "w": 7 * DAY_MS,
}
DURATION_FIX = f"Write a number and a unit ({', '.join(UNITS_MS)}), for example '1 h 30 min'."

_DURATION_PART = re.compile(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([a-z]+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class InvalidValue(Exception):
    """A value is invalid. ``problem`` continues a sentence that begins with the value's name.

    With ``at_key``, ``problem`` is a whole sentence about the key.
    """

    def __init__(self, problem: str, fix: str, code: str, *, at_key: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix
        self.code = code
        self.at_key = at_key
        self.path: Path = ()

    def inside(self, *steps: str | int) -> InvalidValue:
        """Prepend the keys and indexes that lead to the value."""
        self.path = (*steps, *self.path)
        return self

    def as_user_error(self, location: str, subject: str) -> UserError:
        """The error shown to the user; ``subject`` names the value."""
        start = "" if self.at_key else f"{subject} "
        return UserError(f"{location}: {start}{self.problem}.", fix=self.fix, code=self.code)


def subject_of(path: Path, whole: str) -> str:
    """A value's name in a message: ``'cpus' of 'resources'``; ``whole`` names the document."""
    steps = [f"entry {one + 1}" if isinstance(one, int) else repr(one[:60]) for one in path]
    return " of ".join(reversed(steps)) or whole


# -- lists and mappings ------------------------------------------------------------------------------


def members(value: Any, read: Read, most: int) -> list[Any]:
    """A list of at most ``most`` values, each read by ``read``."""
    if not isinstance(value, list | tuple):
        fix = "Write it as [a, b] or as lines that begin with '- '."
        raise InvalidValue(f"is {shown(value)}, not a list", fix, "wrong-type")
    _check_length(value, most)
    values = []
    for index, member in enumerate(value):
        try:
            values.append(read(member))
        except InvalidValue as error:
            raise error.inside(index) from None
    return values


def named(value: Any, read_name: Read, read: Read, most: int) -> dict[str, Any]:
    """A mapping whose keys the user chooses."""
    if not isinstance(value, dict):
        raise InvalidValue(
            f"is {shown(value)}, not a mapping", "Write 'name: value' lines.", "wrong-type"
        )
    _check_length(value, most)
    values: dict[str, Any] = {}
    for name, member in value.items():
        try:
            values[read_name(name)] = read(member)
        except InvalidValue as error:
            raise error.inside(str(name)) from None
    return values


def _check_length(value: Collection[Any], most: int) -> None:
    if len(value) > most:
        raise InvalidValue(
            f"has {len(value):,} entries", f"Write at most {most:,}.", "out-of-range"
        )


# -- texts -------------------------------------------------------------------------------------------


def plain_text(value: Any) -> str:
    """A text of any length. An integer is read as its digits; a boolean is rejected."""
    if isinstance(value, str):
        return value
    if type(value) is int and abs(value) < LARGEST:
        return str(value)
    raise InvalidValue(f"is {shown(value)}, not a text", "Write it in quotes.", "wrong-type")


def text(value: Any) -> str:
    """One line of text: not empty, at most 253 characters, printable."""
    line = plain_text(value)
    if not line.strip():
        raise InvalidValue("is empty", "Write a value, or remove the key.", "empty-text")
    if len(line) > 253:
        fix = "Shorten it to 253 characters."
        raise InvalidValue(f"has {len(line):,} characters", fix, "text-too-long")
    if not line.isprintable():
        fix = "Remove line breaks and control characters."
        raise InvalidValue(f"is {shown(value)}", fix, "unprintable-text")
    return line


def name_text(value: Any) -> str:
    """A name that is safe in a command, a path, a label and a table of any tool."""
    if isinstance(value, str) and _NAME.match(value):
        return value
    written = text(value)
    if _NAME.match(written):
        return written
    clean = _NOT_IN_A_NAME.sub("-", written).strip("-._")[:128]
    fix = "Use letters, digits, '.', '_' and '-', beginning with a letter or digit"
    fix += f", for example {clean!r}." if clean else "."
    raise InvalidValue(f"is {shown(value)}, not a name", fix, "bad-name")


def script(value: Any) -> str:
    """Commands, any number of lines."""
    if not isinstance(value, str):
        raise InvalidValue(
            f"is {shown(value)}, not commands", "Write '|' and lines below.", "wrong-type"
        )
    if len(value) > MOST_SCRIPT:
        fix = "Put it into a file of 'workdir' and run that."
        raise InvalidValue(f"has {len(value):,} characters", fix, "text-too-long")
    reject_unwritable(value)
    return value


def reject_unwritable(value: str) -> None:
    """Reject NUL, which ends a text for the kernel, and lone surrogates, which UTF-8 cannot encode."""
    if "\0" in value:
        raise InvalidValue("contains a NUL character", "Remove it.", "unprintable-text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            fix = "Remove it; write the text as UTF-8."
            raise InvalidValue("contains half a character", fix, "unprintable-text") from None


def choice(known: Collection[str], what: str) -> Read:
    """A reader of one of these words."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise InvalidValue(
            f"is {shown(value)}", suggest(str(value)[:60], known, what), "unknown-choice"
        )

    return read


# -- numbers and times -------------------------------------------------------------------------------


def number(value: Any) -> Decimal | int:
    """An exact number; a JSON float becomes the shortest decimal that it can have come from."""
    kind = type(value)
    if kind is float:
        if not isfinite(value):
            raise InvalidValue(f"is {value}", "Write a finite number.", "out-of-range")
        value = Decimal(repr(value))
    elif kind is not int and kind is not Decimal:
        raise InvalidValue(f"is {shown(value)}, not a number", "Write a number.", "wrong-type")
    if not -LARGEST <= value <= LARGEST:
        raise InvalidValue(f"is {shown(value)}", f"Write at most {LARGEST:,}.", "out-of-range")
    exact: Decimal | int = value
    return exact


def whole(least: int, most: int) -> Read:
    """A reader of integers from ``least`` to ``most``."""

    def read(value: Any) -> int:
        if type(value) is int and least <= value <= most:
            return value
        amount = number(value)
        fix = f"Write a whole number from {least:,} to {most:,}."
        if amount != int(amount) or type(value) is not int:
            raise InvalidValue(f"is {shown(value)}, not a whole number", fix, "wrong-type")
        raise InvalidValue(f"is {amount:,}", fix, "out-of-range")

    return read


def in_units(value: Any, per_one: int, unit: str) -> int:
    """An amount as a whole number of small units, ``per_one`` to each."""
    amount = number(value) * per_one
    if amount < 0:
        raise InvalidValue(f"is {shown(value)}", "Write 0 or more.", "out-of-range")
    if amount > LARGEST:
        fix = f"Write at most {LARGEST // per_one:,}."
        raise InvalidValue(f"is {shown(value)}", fix, "out-of-range")
    if amount != int(amount):
        fix = f"Write a multiple of one {unit}."
        raise InvalidValue(f"is {shown(value)}, too precise", fix, "too-fine")
    return int(amount)


def boolean(value: Any) -> bool:
    """``true`` or ``false``, and no other spelling."""
    if value is True or value is False:
        return bool(value)
    raise InvalidValue(f"is {shown(value)}", "Write true or false.", "wrong-type")


def parse_duration(text: str) -> int | None:
    """The milliseconds of a time with units, or None if the text is no such time."""
    total, position = Decimal(0), 0
    while amount := _DURATION_PART.match(text, position):
        if amount[2] not in UNITS_MS:
            break
        total += Decimal(amount[1]) * UNITS_MS[amount[2]]
        position = amount.end()
    return round(total) if position and not text[position:].strip() else None


def duration_ms(value: Any) -> int:
    """A time with its unit: ``30 min``, ``1 h 30 min``."""
    duration = parse_duration(value[:100]) if isinstance(value, str) else None
    if duration is None:
        raise InvalidValue(f"is {shown(value)}, not a time", DURATION_FIX, "wrong-type")
    if duration > LARGEST:
        raise InvalidValue(f"is {shown(value)}", "Write a shorter time.", "out-of-range")
    return duration


def hours_ms(value: Any) -> int:
    """A number of hours, or a time with its unit; more than 0."""
    duration = (
        duration_ms(value) if isinstance(value, str) else in_units(value, HOUR_MS, "millisecond")
    )
    if duration < 1:
        raise InvalidValue(
            f"is {shown(value)}", "Write more than 0, or remove the key.", "out-of-range"
        )
    return duration


def shown(value: object) -> str:
    """A value as it appears in a message: short and on one line."""
    if isinstance(value, str):
        return repr(value[:60]) + ("..." if len(value) > 60 else "")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**30 else "a number of more than 30 digits"
    if isinstance(value, float | Decimal):
        return str(value)[:60]
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else "empty"


def listed_words(words: Iterable[str]) -> str:
    """Words separated by commas, the last by "or"."""
    known = list(words)
    return " or ".join([", ".join(known[:-1]), known[-1]]) if len(known) > 1 else known[0]

"""Reads single values that are plain already: texts, numbers, lists, mappings.

Submissions come by the thousand as JSON, so nothing is built around a value: a reader takes it and
gives what it means, or raises ``InvalidValue``. Where the value stood is added on the way out, which costs
nothing while all is well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from typing import Any

from bursar.config.yaml.located_value import HOW_TO_WRITE_A_TIME, parse_duration
from bursar.config.yaml.yaml_text import Path
from bursar.core.admission.problem import suggest
from bursar.core.admission.value_limits import LARGEST
from bursar.model.errors import UserError
from bursar.model.suggestion import close_names
from bursar.model.units import HOUR_MS

Read = Callable[[Any], Any]
MOST_SCRIPT = 1 << 19
"""Characters of commands."""

_FLAG_WORDS = {
    word: meaning
    for words, meaning in (("true True TRUE yes on", True), ("false False FALSE no off", False))
    for word in words.split()
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class InvalidValue(Exception):
    """A value is not what it should be. ``problem`` goes on from its name; ``path`` grows outwards."""

    def __init__(self, problem: str, fix: str, code: str, *, at_key: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix
        self.code = code
        self.at_key = at_key
        self.path: Path = ()

    def inside(self, step: str | int) -> InvalidValue:
        self.path = (step, *self.path)
        return self

    def as_user_error(self, place: str) -> UserError:
        """What the user is told; a sentence of its own needs no name before it."""
        subject = "" if self.at_key else f"{_subject(self.path)} "
        return UserError(f"{place}: {subject}{self.problem}.", fix=self.fix, code=self.code)


def _subject(path: Path) -> str:
    steps = [f"entry {one + 1}" if isinstance(one, int) else repr(one[:60]) for one in path]
    return " of ".join(reversed(steps)) or "the job"


def key_path(path: Path) -> str:
    """A path as it is written after a request: ``resources.any_of[1].use_spot``."""
    text = "".join(f"[{one}]" if isinstance(one, int) else f".{one[:60]}" for one in path)
    return text.lstrip(".") or "job"


# -- mappings ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKey:
    """One key: what it means, how its value is read, and the JSON Schema of what may stand there."""

    meaning: str
    read: Read
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTable:
    """The keys of one mapping.

    ``meant`` has what people write instead and where it belongs; ``refused`` has keys of other tools
    that have no counterpart here, each with what to do.
    """

    name: str
    keys: Mapping[str, FileKey]
    meant: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def read_mapping(plain: Any, table: KeyTable) -> dict[str, Any]:
    """What a mapping says, key by key; nothing written after a key is the same as leaving it out."""
    if not isinstance(plain, dict):
        raise InvalidValue(
            f"is {shown(plain)}, not a mapping", "Write 'key: value' lines.", "wrong-type"
        )
    said: dict[str, Any] = {}
    keys = table.keys
    for name, value in plain.items():
        key = keys.get(name)
        if key is None:
            raise unknown_key(name, table).inside(str(name))
        if value is not None:
            try:
                said[name] = key.read(value)
            except InvalidValue as wrong:
                raise wrong.inside(name) from None
    return said


def unknown_key(name: object, table: KeyTable) -> InvalidValue:
    """Says what was meant, as far as that can be guessed."""
    text = str(name)[:60]
    plain = text.lower().replace("-", "_")
    if plain in table.refused:
        problem = f"{text!r} of {table.name} has no counterpart here"
        return InvalidValue(problem, table.refused[plain], "not-supported", at_key=True)
    problem = f"{text!r} is not a key of {table.name}"
    meant = plain if plain in table.keys else table.meant.get(plain)
    if meant is None:
        meant = _nearly(plain, table)
    fix = f"Did you mean {meant!r}?" if meant else suggest(plain, table.keys, "key")
    return InvalidValue(problem, fix, "unknown-key", at_key=True)


def _nearly(plain: str, table: KeyTable) -> str | None:
    """A misspelt word for which there is a key of another name, or in another place."""
    close = close_names(plain, sorted({*table.keys, *table.meant}), cutoff=0.75)
    return table.meant.get(close[0]) if close else None


def members(value: Any, read: Read, most: int) -> list[Any]:
    """A list of so many values at most, each read alike."""
    if not isinstance(value, list | tuple):
        fix = "Write it as [a, b] or as lines that begin with '- '."
        raise InvalidValue(f"is {shown(value)}, not a list", fix, "wrong-type")
    if len(value) > most:
        raise InvalidValue(
            f"has {len(value):,} entries", f"Write at most {most:,}.", "out-of-range"
        )
    found = []
    for index, one in enumerate(value):
        try:
            found.append(read(one))
        except InvalidValue as wrong:
            raise wrong.inside(index) from None
    return found


def named(value: Any, read_name: Read, read: Read, most: int) -> dict[str, Any]:
    """A mapping whose keys the user chooses."""
    if not isinstance(value, dict):
        raise InvalidValue(
            f"is {shown(value)}, not a mapping", "Write 'name: value' lines.", "wrong-type"
        )
    if len(value) > most:
        raise InvalidValue(
            f"has {len(value):,} entries", f"Write at most {most:,}.", "out-of-range"
        )
    found: dict[str, Any] = {}
    for name, one in value.items():
        try:
            found[read_name(name)] = read(one)
        except InvalidValue as wrong:
            raise wrong.inside(str(name)) from None
    return found


# -- texts -------------------------------------------------------------------------------------------


def text(value: Any) -> str:
    """One line of text. A whole number is taken as it is written; a truth value is not."""
    if type(value) is int and abs(value) < LARGEST:
        return str(value)
    if not isinstance(value, str):
        raise InvalidValue(f"is {shown(value)}, not a text", "Write it in quotes.", "wrong-type")
    if not value.strip():
        raise InvalidValue("is empty", "Write something there, or leave the key out.", "empty-text")
    if len(value) > 253:
        fix = "Shorten it to 253 characters."
        raise InvalidValue(f"has {len(value):,} characters", fix, "text-too-long")
    if not value.isprintable():
        fix = "Leave out line breaks and control characters."
        raise InvalidValue(f"is {shown(value)}", fix, "unprintable-text")
    return value


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
    refuse_unwritable(value)
    return value


def refuse_unwritable(value: str) -> None:
    """NUL ends a text for the kernel; a lone surrogate cannot be written at all."""
    if "\0" in value:
        raise InvalidValue("contains a NUL character", "Remove it.", "unprintable-text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            fix = "Remove it; write the text as UTF-8."
            raise InvalidValue("contains half a character", fix, "unprintable-text") from None


def choice(known: Collection[str], what: str) -> Read:
    """One of these words."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise InvalidValue(
            f"is {shown(value)}", suggest(str(value)[:60], known, what), "unknown-choice"
        )

    return read


# -- numbers and times -------------------------------------------------------------------------------


def number(value: Any) -> Decimal | int:
    """A number, exact: a float of JSON is the shortest decimal that it can have come from."""
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
    """A number without a fraction, within limits."""

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
    """An amount that is kept as a whole number of small units, ``per_one`` to each."""
    amount = number(value) * per_one
    if amount < 0:
        raise InvalidValue(f"is {shown(value)}", "Write 0 or more.", "out-of-range")
    if amount > LARGEST:
        fix = f"Write at most {LARGEST // per_one:,}."
        raise InvalidValue(f"is {shown(value)}", fix, "out-of-range")
    if amount != int(amount):
        fix = f"Write a multiple of one {unit}."
        raise InvalidValue(f"is {shown(value)}, finer than can be kept", fix, "too-fine")
    return int(amount)


def flag(value: Any) -> bool:
    """Yes or no."""
    if value is True or value is False:
        return bool(value)
    if isinstance(value, str) and value in _FLAG_WORDS:
        return _FLAG_WORDS[value]
    raise InvalidValue(f"is {shown(value)}", "Write true or false.", "wrong-type")


def duration_ms(value: Any) -> int:
    """A time with its unit: ``30 min``, ``1 h 30 min``."""
    found = parse_duration(value[:100]) if isinstance(value, str) else None
    if found is None:
        raise InvalidValue(f"is {shown(value)}, not a time", HOW_TO_WRITE_A_TIME, "wrong-type")
    if found > LARGEST:
        raise InvalidValue(f"is {shown(value)}", "Write a shorter time.", "out-of-range")
    return found


def hours_ms(value: Any) -> int:
    """A number of hours, or a time with its unit; more than nothing."""
    found = (
        duration_ms(value) if isinstance(value, str) else in_units(value, HOUR_MS, "millisecond")
    )
    if found < 1:
        raise InvalidValue(
            f"is {shown(value)}", "Write more than 0, or leave it out.", "out-of-range"
        )
    return found


def shown(value: object) -> str:
    """A value in a message: short, on one line, whatever it is."""
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
    """Words in a row, the last after "or"."""
    known = list(words)
    return " or ".join([", ".join(known[:-1]), known[-1]]) if len(known) > 1 else known[0]

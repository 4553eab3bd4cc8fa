"""A value of a YAML file that knows where it stands.

YAML is composed, not loaded: a loaded value has forgotten its line, and YAML 1.1 has by then turned
``no`` into a boolean and ``1:30`` into ninety. Here the one who asks says what should be there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, TypeVar

import yaml

from bursar.config.yaml.yaml_text import place_of_error
from bursar.core.admission.problem import suggest
from bursar.model.errors import UserError
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

Choice = TypeVar("Choice", bound=Enum)

UNITS_MS = {
    "ms": 1,
    "s": SECOND_MS,
    "min": MINUTE_MS,
    "h": HOUR_MS,
    "d": DAY_MS,
    "w": 7 * DAY_MS,
}
MOST_DIGITS = 30
"""No number of ours is longer; a longer one could cost any amount of time and memory to convert."""

MOST_CHARACTERS = 1 << 23
MOST_VALUES = 400_000
DEEPEST = 200
"""Tenants may be nested 32 deep, two levels of YAML each; nothing of ours is deeper."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_AMOUNT = re.compile(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([a-z]+)")
HOW_TO_WRITE_A_TIME = (
    f"Write a number and a unit ({', '.join(UNITS_MS)}), for example '1 h 30 min'."
)
_UNREADABLE = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null")
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """Where something was written."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedValue:
    """One value, what it is called, and where it stands."""

    file: str
    name: str
    node: yaml.Node

    # -- where -----------------------------------------------------------------------------------

    @property
    def place(self) -> SourceLocation:
        return place_of(self.file, self.node)

    def wrong(self, problem: str, fix: str, code: str) -> UserError:
        """The error to raise about this value; ``problem`` goes on from its name."""
        return UserError(f"{self.place}: {self.name} {problem}.", fix=fix, code=code)

    # -- what is in it ---------------------------------------------------------------------------

    def fields(self, keys: Collection[str]) -> dict[str, LocatedValue]:
        """A mapping in which only these keys may stand."""
        found = self.named()
        for key in found:
            if key not in keys:
                place = self._place_of_key(key)
                raise UserError(
                    f"{place}: {key!r} is not a key of {self.name}.",
                    fix=suggest(key, keys, "key"),
                    code="unknown-key",
                )
        return found

    def named(self) -> dict[str, LocatedValue]:
        """A mapping whose keys are names that the user chooses, in the order of the file."""
        if self.is_empty:
            return {}
        if not isinstance(self.node, yaml.MappingNode):
            raise self.wrong("is not a mapping", "Write 'key: value' lines below it.", "wrong-type")
        found: dict[str, LocatedValue] = {}
        for key, value in self.node.value:
            text = self._inside(key, "a key").text()
            if text in found:
                raise UserError(
                    f"{place_of(self.file, key)}: {text!r} stands twice in {self.name}.",
                    fix="Keep one of them.",
                    code="duplicate-key",
                )
            found[text] = self._inside(value, f"{text!r} of {self.name}")
        return found

    def members(self) -> list[LocatedValue]:
        """A list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.wrong(
                "is not a list",
                "Write it as [a, b] or as lines that begin with '- '.",
                "wrong-type",
            )
        return [
            self._inside(node, f"entry {number} of {self.name}")
            for number, node in enumerate(self.node.value, start=1)
        ]

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_empty(self) -> bool:
        """Nothing written after the colon, or ``null``."""
        return self.node.tag == "tag:yaml.org,2002:null"

    # -- scalars ---------------------------------------------------------------------------------

    def text(self) -> str:
        """A name. A number is taken as it is written; what YAML reads as a truth value is not."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.wrong("is not a text", "Write one word or a text in quotes.", "wrong-type")
        if self.node.tag in _UNREADABLE:
            written = self.node.value or "nothing"
            fix = f'Write it in quotes, as "{written}", if it is a name.'
            raise self.wrong(f"is {written}, which YAML does not read as text", fix, "wrong-type")
        return str(self.node.value)

    def number(self) -> Decimal:
        """A number, exactly as written."""
        plain = isinstance(self.node, yaml.ScalarNode) and not self.node.style
        try:
            value = Decimal(self.node.value[: 4 * MOST_DIGITS]) if plain else None
        except InvalidOperation:
            value = None
        if value is None or not value.is_finite():
            raise self.wrong(f"is {self._shown()}, not a number", "Write a number.", "wrong-type")
        if len(self.node.value) > MOST_DIGITS or (value and abs(value.adjusted()) > MOST_DIGITS):
            fix = f"Write a number of at most {MOST_DIGITS} digits."
            raise self.wrong("is longer than any number here may be", fix, "out-of-range")
        return value

    def whole(self) -> int:
        """A number without a fraction."""
        value = self.number()
        if value != value.to_integral_value():
            raise self.wrong(f"is {value}", "Write a whole number.", "wrong-type")
        return int(value)

    def in_units(self, per_one: int, unit: str) -> int:
        """An amount that is kept as a whole number of small units, ``per_one`` to each."""
        amount = self.number() * per_one
        if amount < 0:
            raise self.wrong(f"is {self._shown()}", "Write 0 or more.", "out-of-range")
        if amount != amount.to_integral_value():
            fix = f"Write a multiple of one {unit}."
            raise self.wrong(f"is {self._shown()}, finer than can be kept", fix, "too-fine")
        return int(amount)

    def flag(self) -> bool:
        """Yes or no."""
        value = str(self.node.value).lower() if isinstance(self.node, yaml.ScalarNode) else ""
        if value not in _FLAGS:
            raise self.wrong(f"is {self._shown()}", "Write true or false.", "wrong-type")
        return _FLAGS[value]

    def choice(self, choices: type[Choice]) -> Choice:
        """One of the values of an enum."""
        text = self.text()
        names = [str(one.value) for one in choices]
        if text not in names:
            raise self.wrong(f"is {text!r}", suggest(text, names, "choice"), "unknown-choice")
        return choices(text)

    def duration_ms(self) -> int:
        """A time with its unit: ``7 d``, ``1 h 30 min``, ``90s``."""
        text = self.text()
        duration_ms = parse_duration(text)
        if duration_ms is None:
            raise self.wrong(f"is {text[:60]!r}, not a time", HOW_TO_WRITE_A_TIME, "wrong-type")
        return duration_ms

    # -- small steps -----------------------------------------------------------------------------

    def _inside(self, node: yaml.Node, name: str) -> LocatedValue:
        return LocatedValue(file=self.file, name=name, node=node)

    def _place_of_key(self, key: str) -> SourceLocation:
        keys = [node for node, _ in self.node.value if node.value == key]
        return place_of(self.file, keys[0])

    def _shown(self) -> str:
        if isinstance(self.node, yaml.ScalarNode):
            return repr(str(self.node.value)[:60])
        return "a mapping" if self.is_mapping else "a list"


def parse_duration(text: str) -> int | None:
    """The milliseconds that a time with its unit means, or None when it is no such time."""
    total, position = Decimal(0), 0
    while found := _AMOUNT.match(text, position):
        if found[2] not in UNITS_MS:
            break
        total += Decimal(found[1]) * UNITS_MS[found[2]]
        position = found.end()
    return round(total) if position and not text[position:].strip() else None


def place_of(file: str, read: yaml.Node | yaml.Event) -> SourceLocation:
    """Where it begins: what was read from a text has a mark. Marks count from 0, editors from 1."""
    mark = read.start_mark
    assert mark is not None
    return SourceLocation(file=file, line=mark.line + 1, column=mark.column + 1)


def compose(text: str, file: str) -> LocatedValue | None:
    """The whole of a YAML text, or None when there is nothing in it."""
    if len(text) > MOST_CHARACTERS:
        problem = f"{file} has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read."
        raise UserError(problem, fix="Write nodes as a pattern or a number.", code="too-large")
    try:
        _refuse_what_would_cost_too_much(text, file)
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        line, column = place_of_error(error, text)
        reason = error.problem or error.context or "it cannot be read"
        raise _not_yaml(f"{file}:{line}:{column}", reason) from error
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise _not_yaml(file, str(error).splitlines()[0]) from error
    return LocatedValue(file=file, name="the file", node=node) if node is not None else None


def _refuse_what_would_cost_too_much(text: str, file: str) -> None:
    """Composing recurses and keeps everything; going through the events first does neither."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST or count > MOST_VALUES:
            what = f"is nested more than {DEEPEST} deep"
            if count > MOST_VALUES:
                what = f"has more than {MOST_VALUES:,} values"
            place = place_of(file, event)
            fix = "Make the tree flatter, or write nodes as a pattern or a number."
            raise UserError(f"{place}: the file {what} here.", fix=fix, code="too-large")


def _not_yaml(place: str, reason: str) -> UserError:
    return UserError(
        f"{place}: this is not YAML: {reason}.",
        fix="Look for a missing colon, quote or space of indentation just before that place.",
        code="not-yaml",
    )

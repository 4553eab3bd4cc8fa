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
from typing import TypeVar

import yaml

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
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)")
_UNREADABLE = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null")
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something was written."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One value, what it is called, and where it stands."""

    file: str
    name: str
    node: yaml.Node

    # -- where -----------------------------------------------------------------------------------

    @property
    def place(self) -> Place:
        return place_of(self.file, self.node.start_mark)

    def wrong(self, problem: str, fix: str, code: str) -> UserError:
        """The error to raise about this value; ``problem`` goes on from its name."""
        return UserError(f"{self.place}: {self.name} {problem}.", fix=fix, code=code)

    # -- what is in it ---------------------------------------------------------------------------

    def fields(self, keys: Collection[str]) -> dict[str, Entry]:
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

    def named(self) -> dict[str, Entry]:
        """A mapping whose keys are names that the user chooses, in the order of the file."""
        if self.is_empty:
            return {}
        if not isinstance(self.node, yaml.MappingNode):
            raise self.wrong("is not a mapping", "Write 'key: value' lines below it.", "wrong-type")
        found: dict[str, Entry] = {}
        for key, value in self.node.value:
            text = self._inside(key, "a key").text()
            if text in found:
                raise UserError(
                    f"{place_of(self.file, key.start_mark)}: {text!r} stands twice in {self.name}.",
                    fix="Keep one of them.",
                    code="duplicate-key",
                )
            found[text] = self._inside(value, f"{text!r} of {self.name}")
        return found

    def members(self) -> list[Entry]:
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
        plain = isinstance(self.node, yaml.ScalarNode) and self.node.style is None
        try:
            value = Decimal(self.node.value) if plain else None
        except InvalidOperation:
            value = None
        if value is None or not value.is_finite():
            raise self.wrong(f"is {self._shown()}, not a number", "Write a number.", "wrong-type")
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
        total, position = Decimal(0), 0
        while found := _AMOUNT.match(text, position):
            if found[2] not in UNITS_MS:
                break
            total += Decimal(found[1]) * UNITS_MS[found[2]]
            position = found.end()
        if not position or text[position:].strip():
            fix = f"Write a number and a unit ({', '.join(UNITS_MS)}), for example '1 h 30 min'."
            raise self.wrong(f"is {text!r}, not a time", fix, "wrong-type")
        return round(total)

    # -- small steps -----------------------------------------------------------------------------

    def _inside(self, node: yaml.Node, name: str) -> Entry:
        return Entry(file=self.file, name=name, node=node)

    def _place_of_key(self, key: str) -> Place:
        marks = [node.start_mark for node, _ in self.node.value if node.value == key]
        return place_of(self.file, marks[0])

    def _shown(self) -> str:
        if isinstance(self.node, yaml.ScalarNode):
            return repr(str(self.node.value)[:60])
        return "a mapping" if self.is_mapping else "a list"


def place_of(file: str, mark: yaml.Mark) -> Place:
    """Marks count from 0, editors from 1."""
    return Place(file=file, line=mark.line + 1, column=mark.column + 1)


def compose(text: str, file: str) -> Entry | None:
    """The whole of a YAML text, or None when there is nothing in it."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = str(place_of(file, mark)) if mark else file
        raise _not_yaml(place, error.problem or error.context or "it cannot be read") from error
    except (yaml.YAMLError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _not_yaml(file, reason.splitlines()[0]) from error
    return Entry(file=file, name="the file", node=node) if node is not None else None


def _not_yaml(place: str, reason: str) -> UserError:
    return UserError(
        f"{place}: this is not YAML: {reason}.",
        fix="Look for a missing colon, quote or space of indentation just before that place.",
        code="not-yaml",
    )

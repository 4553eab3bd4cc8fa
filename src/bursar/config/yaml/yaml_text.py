"""YAML text as plain values, with the place of each, within limits that nothing written can exceed.

YAML is read event by event: no tag is obeyed, no alias followed, nothing recurses, and the first
event over a limit ends the reading. What a scalar means is decided here and keeps its text: only
``true`` and ``false`` are truth values, only plain decimal numbers are numbers, so ``NO``, ``1:30``,
``007`` and ``1e5`` stay the texts they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import yaml

from bursar.model.errors import UserError

MOST_CHARACTERS = 1 << 20
MOST_VALUES = 10_000
DEEPEST = 32

Path = tuple[str | int, ...]
"""The keys and numbers that lead from the top of a document to a value."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,29})\Z")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d{0,29})\.\d{1,30}\Z")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedValue:
    """Plain values and where they stand: ``marks`` has the line and column of each key and value."""

    value: Any
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    values: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def place(self, file: str, path: Path, *, at_key: bool) -> str:
        """``file:line:column`` of a key or value, or of the nearest thing around it."""
        while path not in self.values and path:
            path, at_key = path[:-1], False
        found = (self.keys if at_key else self.values).get(path) or self.values.get(path, (1, 1))
        return f"{file}:{found[0]}:{found[1]}"


def decode(raw: bytes, file: str) -> str:
    """The text of a file or request; it must be UTF-8."""
    if len(raw) > 4 * MOST_CHARACTERS:
        raise _too_large(file, len(raw), "bytes")
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise UserError(f"{file} is written in UTF-16.", fix="Save it as UTF-8.", code="not-yaml")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = f"byte {error.start + 1} is not a part of any character"
        fix = "Save it as UTF-8."
        raise UserError(f"{file} is not UTF-8: {at}.", fix=fix, code="not-yaml") from error


def read_yaml(text: str, file: str) -> PlacedValue:
    """The one document in a YAML text; an empty text gives None."""
    if len(text) > MOST_CHARACTERS:
        raise _too_large(file, len(text), "characters")
    text = text.removeprefix("\ufeff")
    try:
        return _Composition(file).build(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, text, file) from error
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise _unreadable_character(text, file) from error


class _Composition:
    """Puts events together without recursion. The stack holds what is still open."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.placed = PlacedValue(value=None)
        self.stack: list[_Open] = []
        self.root: Any = None
        self.documents = 0
        self.count = 0

    def build(self, events: Iterator[yaml.Event]) -> PlacedValue:
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._refuse_tricks(event)
                self._scalar(event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._open(event, {})
            elif isinstance(event, yaml.SequenceStartEvent):
                self._open(event, [])
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                self.stack.pop()
            elif isinstance(event, yaml.AliasEvent):
                fix = "Write the value out here."
                raise self._wrong(event, "a YAML alias is not read", fix, "yaml-alias")
            elif isinstance(event, yaml.DocumentStartEvent):
                self._count_document(event)
        return PlacedValue(value=self.root, keys=self.placed.keys, values=self.placed.values)

    def _open(self, event: Any, container: Any) -> None:
        self._refuse_tricks(event)
        if len(self.stack) >= DEEPEST:
            fix = f"Nest at most {DEEPEST} levels."
            raise self._wrong(event, f"this is nested more than {DEEPEST} deep", fix, "too-deep")
        path = self._add(container, event)
        self.stack.append(_Open(container=container, path=path))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.container, dict) and top.key is None:
            self._key(event, top)
        else:
            self._add(_meaning(event), event)

    def _key(self, event: yaml.ScalarEvent, top: _Open) -> None:
        key = event.value
        if key in top.container:
            first = self.placed.keys[(*top.path, key)]
            problem = f"{key[:60]!r} stands twice, first in line {first[0]}"
            raise self._wrong(event, problem, "Keep one of them.", "duplicate-key")
        if key == "<<" and event.implicit[0]:
            fix = "Write the keys out here."
            raise self._wrong(event, "the YAML merge key '<<' is not read", fix, "yaml-alias")
        top.key = key
        self.placed.keys[(*top.path, key)] = _mark(event)

    def _add(self, value: Any, event: Any) -> Path:
        self.count += 1
        if self.count > MOST_VALUES:
            fix = f"Keep a document within {MOST_VALUES:,} values."
            raise self._wrong(
                event, f"there are more than {MOST_VALUES:,} values", fix, "too-large"
            )
        path: Path = ()
        if self.stack:
            top = self.stack[-1]
            if isinstance(top.container, list):
                path = (*top.path, len(top.container))
                top.container.append(value)
            else:
                if top.key is None:
                    fix = "Write a word before the colon."
                    raise self._wrong(event, "a key is a list or a mapping", fix, "wrong-type")
                path = (*top.path, top.key)
                top.container[top.key] = value
                top.key = None
        else:
            self.root = value
        self.placed.values[path] = _mark(event)
        return path

    def _refuse_tricks(self, event: Any) -> None:
        if event.tag is not None:
            shown = str(event.tag).replace("tag:yaml.org,2002:", "!!")[:60]
            fix = "Leave the tag out; put a text in quotes."
            raise self._wrong(event, f"the YAML tag {shown!r} is not read", fix, "yaml-tag")
        if event.anchor is not None:
            fix = "Leave it out and write values where they are used."
            raise self._wrong(event, "a YAML anchor is not read", fix, "yaml-alias")

    def _count_document(self, event: yaml.Event) -> None:
        self.documents += 1
        if self.documents > 1:
            fix = "Put each into a file of its own; 'depends_on' orders jobs."
            raise self._wrong(event, "a second document begins here", fix, "two-documents")

    def _wrong(self, event: Any, problem: str, fix: str, code: str) -> UserError:
        line, column = _mark(event)
        return UserError(f"{self.file}:{line}:{column}: {problem}.", fix=fix, code=code)


@dataclass(slots=True, kw_only=True)
class _Open:
    """A list or mapping whose end has not come, and the key that waits for its value."""

    container: Any
    path: Path
    key: str | None = None


def _mark(event: Any) -> tuple[int, int]:
    """Marks count from 0, editors from 1."""
    return event.start_mark.line + 1, event.start_mark.column + 1


def _meaning(event: yaml.ScalarEvent) -> Any:
    text = event.value
    if not event.implicit[0]:
        return text
    if text in _NULLS:
        return None
    if text in _FLAGS:
        return _FLAGS[text]
    if _WHOLE.match(text):
        return int(text)
    return Decimal(text) if _DECIMAL.match(text) else text


# -- what is not YAML --------------------------------------------------------------------------------


def place_of_error(error: yaml.MarkedYAMLError, text: str) -> tuple[int, int]:
    """Line and column; what is missing at the end of a text is missing after its last character."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return 1, 1
    lines = text.rstrip().split("\n")
    if mark.line >= len(lines):
        return len(lines), len(lines[-1]) + 1
    return mark.line + 1, mark.column + 1


def _not_yaml(error: yaml.MarkedYAMLError, text: str, file: str) -> UserError:
    line, column = place_of_error(error, text)
    there = text.split("\n", line)[line - 1]
    fix = "Look for a missing colon, quote or space of indentation just before that place."
    if "\t" in there[:column]:
        fix = "Indent with spaces: YAML does not allow tabs."
    elif "mapping values are not allowed" in str(error.problem):
        fix = "Put a text that contains ': ' in quotes, or indent this line like the one above."
    reason = error.problem or error.context or "it cannot be read"
    place = f"{file}:{line}:{column}"
    return UserError(f"{place}: this is not YAML: {reason}.", fix=fix, code="not-yaml")


def _unreadable_character(text: str, file: str) -> UserError:
    bad = re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]", text)
    where, shown = file, "a character that YAML does not allow"
    if bad is not None:
        before = text[: bad.start()]
        line, column = before.count("\n") + 1, bad.start() - before.rfind("\n")
        where, shown = f"{file}:{line}:{column}", f"the control character {bad[0]!r}"
    return UserError(
        f"{where}: this is not YAML: it contains {shown}.",
        fix="Remove it and save the file as UTF-8 text.",
        code="not-yaml",
    )


def _too_large(file: str, size: int, unit: str) -> UserError:
    return UserError(
        f"{file} has {size:,} {unit}; at most {MOST_CHARACTERS:,} are read.",
        fix="Move what is large into files and name them in 'workdir' or 'file_mounts'.",
        code="too-large",
    )

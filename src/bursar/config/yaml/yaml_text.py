"""YAML text as plain values with their locations, within fixed limits.

YAML is read event by event: tags, anchors and aliases are rejected, nothing recurses, and reading
stops at the first event over a limit. Only ``true`` and ``false`` are booleans and only plain
decimals are numbers, so ``NO``, ``1:30``, ``007`` and ``1e5`` stay texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import yaml

from bursar.model.errors import UserError

MOST_CHARACTERS = 1 << 23
MOST_VALUES = 200_000
"""Enough for the nodes of a large fleet, listed one by one."""
DEEPEST = 80
"""Tenants may be nested 32 deep, with two levels of YAML each."""
MOST_JOB_CHARACTERS = 1 << 20
"""Any user may send a job, so reading one must not take seconds of the server."""

Path = tuple[str | int, ...]
"""The keys and indexes that lead from the top of a document to a value."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,29})\Z")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d{0,29})\.\d{1,30}\Z")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """Plain values, and the line and column of each key and value."""

    file: str
    value: Any = None
    key_marks: dict[Path, tuple[int, int]] = field(default_factory=dict)
    value_marks: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def location(self, path: Path, *, at_key: bool = False) -> str:
        """``file:line:column`` of a key or value, or of the closest value around it."""
        while path not in self.value_marks and path:
            path, at_key = path[:-1], False
        mark = self.key_marks.get(path) if at_key else None
        line, column = mark or self.value_marks.get(path, (1, 1))
        return f"{self.file}:{line}:{column}"

    def keys_at(self, path: Path) -> list[str]:
        """The keys of the mapping at a path; empty when there is no mapping."""
        value = self.value
        for step in path:
            value = value[step]
        return list(value) if isinstance(value, dict) else []


def decode(raw: bytes, file: str) -> str:
    """The text of a file or request; it must be UTF-8."""
    if len(raw) > 4 * MOST_CHARACTERS:
        raise _too_large(file, len(raw), "bytes")
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise UserError(f"{file} is UTF-16.", fix="Save it as UTF-8.", code="not-yaml")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{file} is not UTF-8: byte {error.start + 1} belongs to no character.",
            fix="Save it as UTF-8.",
            code="not-yaml",
        ) from error


def read_yaml(text: str, file: str, most_characters: int = MOST_CHARACTERS) -> YamlDocument:
    """The one document in a YAML text; its value is None when the text is empty."""
    if len(text) > most_characters:
        raise _too_large(file, len(text), "characters", most_characters)
    text = text.removeprefix("\ufeff")
    try:
        return _Composer(file).compose(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, text, file) from error
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise _unreadable_character(text, file) from error


class _Composer:
    """Builds values from events without recursion; the stack holds open containers."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.key_marks: dict[Path, tuple[int, int]] = {}
        self.value_marks: dict[Path, tuple[int, int]] = {}
        self.stack: list[_Open] = []
        self.root: Any = None
        self.documents = 0
        self.count = 0

    def compose(self, events: Iterator[yaml.Event]) -> YamlDocument:
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._reject_tag_and_anchor(event)
                self._scalar(event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._open(event, {})
            elif isinstance(event, yaml.SequenceStartEvent):
                self._open(event, [])
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                self.stack.pop()
            elif isinstance(event, yaml.AliasEvent):
                fix = "Write the value out here."
                raise self._error(event, "YAML aliases are not supported", fix, "yaml-alias")
            elif isinstance(event, yaml.DocumentStartEvent):
                self._count_document(event)
        return YamlDocument(
            file=self.file,
            value=self.root,
            key_marks=self.key_marks,
            value_marks=self.value_marks,
        )

    def _open(self, event: Any, container: Any) -> None:
        self._reject_tag_and_anchor(event)
        if len(self.stack) >= DEEPEST:
            fix = f"Nest at most {DEEPEST} levels."
            raise self._error(event, f"this is nested more than {DEEPEST} deep", fix, "too-deep")
        path = self._add(container, event)
        self.stack.append(_Open(container=container, path=path))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.container, dict) and top.key is None:
            self._key(event, top)
        else:
            self._add(_scalar_value(event), event)

    def _key(self, event: yaml.ScalarEvent, top: _Open) -> None:
        key = event.value
        if key in top.container:
            first_line = self.key_marks[(*top.path, key)][0]
            problem = f"{key[:60]!r} appears twice, first in line {first_line}"
            raise self._error(event, problem, "Keep one of them.", "duplicate-key")
        if key == "<<" and event.implicit[0]:
            fix = "Write the keys out here."
            raise self._error(event, "the YAML merge key '<<' is not supported", fix, "yaml-alias")
        top.key = key
        self.key_marks[(*top.path, key)] = _mark(event)

    def _add(self, value: Any, event: Any) -> Path:
        self.count += 1
        if self.count > MOST_VALUES:
            problem = f"there are more than {MOST_VALUES:,} values"
            fix = f"Write at most {MOST_VALUES:,} values in one file."
            raise self._error(event, problem, fix, "too-large")
        path: Path = ()
        if self.stack:
            top = self.stack[-1]
            if isinstance(top.container, list):
                path = (*top.path, len(top.container))
                top.container.append(value)
            else:
                if top.key is None:
                    fix = "Write a word before the colon."
                    raise self._error(event, "a key is a list or a mapping", fix, "wrong-type")
                path = (*top.path, top.key)
                top.container[top.key] = value
                top.key = None
        else:
            self.root = value
        self.value_marks[path] = _mark(event)
        return path

    def _reject_tag_and_anchor(self, event: Any) -> None:
        if event.tag is not None:
            tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")[:60]
            fix = "Remove the tag; put a text in quotes."
            raise self._error(event, f"the YAML tag {tag!r} is not supported", fix, "yaml-tag")
        if event.anchor is not None:
            fix = "Remove it and write each value where it is used."
            raise self._error(event, "YAML anchors are not supported", fix, "yaml-alias")

    def _count_document(self, event: yaml.Event) -> None:
        self.documents += 1
        if self.documents > 1:
            fix = "Put each document into a file of its own."
            raise self._error(event, "a second document begins here", fix, "two-documents")

    def _error(self, event: Any, problem: str, fix: str, code: str) -> UserError:
        line, column = _mark(event)
        return UserError(f"{self.file}:{line}:{column}: {problem}.", fix=fix, code=code)


@dataclass(slots=True, kw_only=True)
class _Open:
    """A list or mapping that has not ended, and the key that waits for its value."""

    container: Any
    path: Path
    key: str | None = None


def _mark(event: Any) -> tuple[int, int]:
    """Marks count from 0, editors from 1."""
    return event.start_mark.line + 1, event.start_mark.column + 1


def _scalar_value(event: yaml.ScalarEvent) -> Any:
    text = event.value
    if not event.implicit[0]:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _WHOLE.match(text):
        return int(text)
    return Decimal(text) if _DECIMAL.match(text) else text


# -- what is not YAML --------------------------------------------------------------------------------


def _location_of(error: yaml.MarkedYAMLError, text: str) -> tuple[int, int]:
    """Line and column; an error at the end is located after the last character."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return 1, 1
    lines = text.rstrip().split("\n")
    if mark.line >= len(lines):
        return len(lines), len(lines[-1]) + 1
    return mark.line + 1, mark.column + 1


def _not_yaml(error: yaml.MarkedYAMLError, text: str, file: str) -> UserError:
    line, column = _location_of(error, text)
    source_line = text.split("\n", line)[line - 1]
    fix = "Check for a missing colon, quote or indentation just before this position."
    if "\t" in source_line[:column]:
        fix = "Indent with spaces: YAML does not allow tabs."
    elif "mapping values are not allowed" in str(error.problem):
        fix = "Put a text that contains ': ' in quotes, or indent this line like the one above."
    reason = error.problem or error.context or "it cannot be read"
    return UserError(
        f"{file}:{line}:{column}: this is not YAML: {reason}.", fix=fix, code="not-yaml"
    )


def _unreadable_character(text: str, file: str) -> UserError:
    bad = re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]", text)
    location, character = file, "a character that YAML does not allow"
    if bad is not None:
        before = text[: bad.start()]
        line, column = before.count("\n") + 1, bad.start() - before.rfind("\n")
        location, character = f"{file}:{line}:{column}", f"the control character {bad[0]!r}"
    return UserError(
        f"{location}: this is not YAML: it contains {character}.",
        fix="Remove it and save the file as UTF-8 text.",
        code="not-yaml",
    )


def _too_large(file: str, size: int, unit: str, most: int = MOST_CHARACTERS) -> UserError:
    return UserError(
        f"{file} has {size:,} {unit}; at most {most:,} are read.",
        fix="Split a fleet into several files; move large texts of a job into its 'workdir'.",
        code="too-large",
    )

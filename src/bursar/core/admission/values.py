"""Every value of a spec is of the type its field declares, and within the field's limits.

One walk over the declared types instead of a check per field: a field added to the model is checked
from that day on. Whole numbers are strict. ``True`` is not 1, 2.0 is not 2: what is accepted here is
hashed, compared and summed for years.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from bursar.core.admission.limits import (
    LIMITS,
    MAY_BE_EMPTY,
    MOST_CHARACTERS,
    PLAIN,
    UNITS,
)
from bursar.core.admission.problem import Problem, listed
from bursar.model.declared import declared_types


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where in a spec we are: the path to show, and the field that declares what may stand here."""

    path: str
    owner: tuple[type, str]

    def inside(self, step: str) -> _Place:
        return _Place(path=f"{self.path}{step}", owner=self.owner)

    def problem(self, code: str, text: str, fix: str) -> Problem:
        return Problem(code=code, field=self.path, text=text, fix=fix)


def value_problems(value: object, path: str = "") -> Iterator[Problem]:
    """Everything wrong with the types and sizes of a dataclass and all that is in it."""
    kind: Any = type(value)
    for name, declared in _fields_of(kind):
        place = _Place(path=f"{path}.{name}" if path else name, owner=(kind, name))
        yield from _check(getattr(value, name), declared, place)


@cache
def _fields_of(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = declared_types(kind)
    return tuple((one.name, hints[one.name]) for one in fields(kind) if one.init)


def _check(value: object, declared: Any, place: _Place) -> Iterator[Problem]:
    origin = get_origin(declared)
    if origin in (Union, UnionType):
        yield from _check_union(value, get_args(declared), place)
    elif origin is tuple:
        yield from _check_tuple(value, get_args(declared), place)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _check_mapping(value, get_args(declared), place)
    elif declared is int or declared is float:
        yield from _check_number(value, declared, place)
    elif declared is str:
        yield from _check_text(value, place)
    elif isinstance(declared, type) and issubclass(declared, Enum):
        if value not in tuple(declared):
            names = listed(str(one.value) for one in declared)
            yield place.problem("unknown-choice", f"is {value!r}", f"Write one of {names}.")
    elif not isinstance(value, declared):
        yield _wrong_type(value, declared.__name__, place)
    elif is_dataclass(declared):
        yield from value_problems(value, place.path)


def _check_union(value: object, kinds: tuple[Any, ...], place: _Place) -> Iterator[Problem]:
    if value is None and NoneType in kinds:
        return
    others = [kind for kind in kinds if kind is not NoneType]
    for kind in others:
        if isinstance(kind, type) and isinstance(value, kind):
            yield from _check(value, kind, place)
            return
    if len(others) == 1:
        yield from _check(value, others[0], place)
    else:
        yield _wrong_type(value, " or ".join(str(kind.__name__) for kind in others), place)


def _check_tuple(value: object, kinds: tuple[Any, ...], place: _Place) -> Iterator[Problem]:
    if not isinstance(value, tuple):
        yield _wrong_type(value, "tuple", place)
        return
    endless = len(kinds) == 2 and kinds[1] is Ellipsis
    if not endless and len(value) != len(kinds):
        fix = f"Write exactly {len(kinds)} values."
        yield place.problem("wrong-type", f"has {len(value)} values", fix)
        return
    for index, one in enumerate(value):
        kind = kinds[0] if endless else kinds[index]
        yield from _check(one, kind, place.inside(f"[{index}]"))


def _check_mapping(value: object, kinds: tuple[Any, ...], place: _Place) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        yield _wrong_type(value, "mapping", place)
        return
    for key, one in value.items():
        yield from _check(key, kinds[0], place.inside(f" key {key!r}"))
        yield from _check(one, kinds[1], place.inside(f"[{_shown(key)}]"))


def _check_number(value: object, declared: type, place: _Place) -> Iterator[Problem]:
    if declared is float and type(value) is float:
        if not isfinite(value):
            yield place.problem("out-of-range", f"is {value}", "Write a finite number.")
            return
    elif type(value) is not int:
        yield _wrong_type(value, "whole number" if declared is int else "number", place)
        return
    assert isinstance(value, int | float)
    limits = LIMITS.get(place.owner, PLAIN)
    if not limits.least <= value <= limits.most:
        amount = f"{value:,}" if abs(value) < 10**30 else "longer than 30 digits"
        fix = f"Write {UNITS.get(place.owner) or limits}."
        yield place.problem(limits.code, f"is {amount}", fix)


def _check_text(value: object, place: _Place) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield _wrong_type(value, "text", place)
    elif not value.strip() and place.owner not in MAY_BE_EMPTY:
        yield place.problem("empty-text", "is empty", "Write a name there, or leave the field out.")
    elif len(value) > MOST_CHARACTERS:
        fix = f"Shorten it to {MOST_CHARACTERS} characters."
        yield place.problem("text-too-long", f"has {len(value):,} characters", fix)
    elif not value.isprintable():
        fix = "Leave out line breaks and control characters."
        yield place.problem("unprintable-text", f"is {value!r}", fix)


def _wrong_type(value: object, wanted: str, place: _Place) -> Problem:
    shown = repr(value) if isinstance(value, bool | int | float | str | NoneType) else "there"
    if len(shown) > 60:
        shown = f"{shown[:60]}..."
    kind = type(value).__name__
    return place.problem("wrong-type", f"is {shown}, of type {kind}", f"Write a {wanted}.")


def _shown(key: object) -> str:
    """A key of a mapping in a path: a flavor and resource as people write them."""
    return " ".join(str(part) for part in key) if isinstance(key, tuple) else str(key)

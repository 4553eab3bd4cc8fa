"""Checks that every value has the declared type of its field and is within its limits.

Checks are built once from the type hints, so new fields are checked without further code. A check
returns relative paths, which are joined only if there is a problem. Integers are strict (``True`` is not
1, 2.0 is not 2), because these values are hashed, compared and summed later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from enum import Enum
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from bursar.core.admission.problem import Problem, listed
from bursar.core.admission.value_limits import (
    LIMITS,
    MAY_BE_EMPTY,
    MOST_CHARACTERS,
    PLAIN,
    UNITS,
)

Check = Callable[[Any], Sequence[Problem]]
"""Returns problems whose field is the path within the checked value."""
Owner = tuple[type, str]
"""The field that sets the limits of a value."""


def value_problems(value: object, path: str = "") -> Iterator[Problem]:
    """All problems with the types and sizes of a dataclass, nested values included."""
    kind: Any = type(value)
    for one in _dataclass_check(kind)(value):
        yield _inside(path, one) if path else replace(one, field=one.field.removeprefix("."))


def are_valid_names(texts: Iterable[object]) -> bool:
    """Whether each is valid for a field that holds a name."""
    check = _text_check((object, ""))
    return not any(check(text) for text in texts)


@cache
def _dataclass_check(kind: Any) -> Check:
    hints = get_type_hints(kind)
    checks = [
        (one.name, _check_of(hints[one.name], (kind, one.name))) for one in fields(kind) if one.init
    ]

    def check(value: Any) -> Sequence[Problem]:
        found: list[Problem] = []
        for name, of_field in checks:
            if wrong := of_field(getattr(value, name)):
                found += [_inside(f".{name}", one) for one in wrong]
        return found

    return check


@cache
def _check_of(declared: Any, owner: Owner) -> Check:
    origin = get_origin(declared)
    if origin in (Union, UnionType):
        return _optional_check(get_args(declared), owner)
    if origin is tuple:
        return _tuple_check(get_args(declared), owner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_check(get_args(declared), owner)
    if declared is int or declared is float:
        return _number_check(declared, owner)
    if declared is str:
        return _text_check(owner)
    if issubclass(declared, Enum):
        return _enum_check(declared)
    return _class_check(declared)


def _class_check(declared: Any) -> Check:
    def check(value: Any) -> Sequence[Problem]:
        if not isinstance(value, declared):
            members = dict.fromkeys(one.__name__ for one in declared.__subclasses__())
            return _wrong_type(value, " or ".join(members) or declared.__name__)
        kind: Any = type(value)
        return _dataclass_check(kind)(value) if hasattr(kind, "__dataclass_fields__") else ()

    return check


def _enum_check(declared: type[Enum]) -> Check:
    members = tuple(declared)

    def check(value: Any) -> Sequence[Problem]:
        if value in members:
            return ()
        names = listed(str(one.value) for one in members)
        return _wrong("unknown-choice", f"is {value!r}", f"Write one of {names}.")

    return check


def _optional_check(kinds: tuple[Any, ...], owner: Owner) -> Check:
    (kind,) = (one for one in kinds if one is not NoneType)
    check_value = _check_of(kind, owner)

    def check(value: Any) -> Sequence[Problem]:
        return () if value is None else check_value(value)

    return check


def _tuple_check(kinds: tuple[Any, ...], owner: Owner) -> Check:
    endless = len(kinds) == 2 and kinds[1] is Ellipsis
    checks = [_check_of(kind, owner) for kind in (kinds[:1] if endless else kinds)]

    def check(value: Any) -> Sequence[Problem]:
        if not isinstance(value, tuple):
            return _wrong_type(value, "tuple")
        if not endless and len(value) != len(checks):
            fix = f"Write exactly {len(checks)} values."
            return _wrong("wrong-type", f"has {len(value)} values", fix)
        found: list[Problem] = []
        for index, one in enumerate(value):
            if wrong := checks[0 if endless else index](one):
                found += [_inside(f"[{index}]", each) for each in wrong]
        return found

    return check


def _mapping_check(kinds: tuple[Any, ...], owner: Owner) -> Check:
    of_key, of_value = _check_of(kinds[0], owner), _check_of(kinds[1], owner)

    def check(value: Any) -> Sequence[Problem]:
        if not isinstance(value, Mapping):
            return _wrong_type(value, "mapping")
        found: list[Problem] = []
        for key, one in value.items():
            found += [_inside(f" key {key!r}", wrong) for wrong in of_key(key)]
            found += [_inside(f"[{_shown(key)}]", wrong) for wrong in of_value(one)]
        return found

    return check


def _number_check(declared: type, owner: Owner) -> Check:
    limits = LIMITS.get(owner, PLAIN)
    least, most = limits.least, limits.most

    def check(value: Any) -> Sequence[Problem]:
        if declared is float and type(value) is float:
            if not isfinite(value):
                return _wrong("out-of-range", f"is {value}", "Write a finite number.")
        elif type(value) is not int:
            return _wrong_type(value, "whole number" if declared is int else "number")
        if least <= value <= most:
            return ()
        amount = f"{value:,}" if abs(value) < 10**30 else "longer than 30 digits"
        return _wrong(limits.code, f"is {amount}", f"Write {UNITS.get(owner) or limits}.")

    return check


@cache
def _text_check(owner: Owner) -> Check:
    may_be_empty = owner in MAY_BE_EMPTY

    def check(value: Any) -> Sequence[Problem]:
        if not isinstance(value, str):
            return _wrong_type(value, "text")
        if not value.strip() and not may_be_empty:
            return _wrong("empty-text", "is empty", "Write a name there, or leave the field out.")
        if len(value) > MOST_CHARACTERS:
            fix = f"Shorten it to {MOST_CHARACTERS} characters."
            return _wrong("text-too-long", f"has {len(value):,} characters", fix)
        if not value.isprintable():
            fix = "Leave out line breaks and control characters."
            return _wrong("unprintable-text", f"is {value!r}", fix)
        return ()

    return check


def _wrong_type(value: object, wanted: str) -> Sequence[Problem]:
    shown = repr(value) if isinstance(value, bool | int | float | str | NoneType) else "there"
    if len(shown) > 60:
        shown = f"{shown[:60]}..."
    kind = type(value).__name__
    return _wrong("wrong-type", f"is {shown}, of type {kind}", f"Write a {wanted}.")


def _wrong(code: str, text: str, fix: str) -> Sequence[Problem]:
    """The problem of the checked value itself."""
    return (Problem(code=code, field="", text=text, fix=fix),)


def _inside(step: str, problem: Problem) -> Problem:
    """The problem of a part, as one of the whole."""
    return replace(problem, field=f"{step}{problem.field}")


def _shown(key: object) -> str:
    """A key of a mapping in a path: a flavor and resource as people write them."""
    return " ".join(str(part) for part in key) if isinstance(key, tuple) else str(key)

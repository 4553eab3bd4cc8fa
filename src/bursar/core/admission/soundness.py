"""Whether every value of a spec is in order, and nothing else: the answer for almost every job.

``values.py`` says what is wrong, where, and what to write; that takes a walk that remembers its way. Here
the same rules are put together once for each type, so that a job with nothing wrong pays a tenth of it.
What is not surely in order is left to the walk: a "no" here is only a reason to look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from operator import attrgetter, call
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from bursar.core.admission.limits import LIMITS, MAY_BE_EMPTY, MOST_CHARACTERS, PLAIN
from bursar.model.declared import declared_types

Check = Callable[[Any], bool]
Owner = tuple[type, str]


def is_sound(value: object) -> bool:
    """Whether ``value_problems`` would surely find nothing."""
    kind: Any = type(value)
    return _dataclass_check(kind)(value)


def are_sound_texts(texts: tuple[object, ...]) -> bool:
    """The same for texts that may not be empty."""
    return all(map(_text_check((object, "")), texts))


@cache
def _check_of(declared: Any, owner: Owner) -> Check:
    """The check of a declared type; ``owner`` is the field that sets its limits."""
    origin = get_origin(declared)
    if origin in (Union, UnionType):
        return _union_check(get_args(declared), owner)
    if origin is tuple:
        return _tuple_check(get_args(declared), owner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_check(get_args(declared), owner)
    if declared is int or declared is float:
        return _number_check(declared, owner)
    if declared is str:
        return _text_check(owner)
    if is_dataclass(declared) and isinstance(declared, type):
        return _dataclass_check(declared)
    if isinstance(declared, type) and (issubclass(declared, Enum) or declared is bool):
        return lambda value: type(value) is declared
    return lambda _value: False


@cache
def _dataclass_check(kind: Any) -> Check:
    hints = declared_types(kind)
    names = [one.name for one in fields(kind) if one.init]
    checks = [_check_of(hints[name], (kind, name)) for name in names]
    if len(names) == 1:
        (name,), (check,) = names, checks
        return lambda value: type(value) is kind and check(getattr(value, name))
    values_of = attrgetter(*names)

    return lambda value: type(value) is kind and all(map(call, checks, values_of(value)))


def _union_check(kinds: tuple[Any, ...], owner: Owner) -> Check:
    checks: dict[type, Check] = {
        get_origin(kind) or kind: _check_of(kind, owner) for kind in kinds if kind is not NoneType
    }
    if NoneType in kinds:
        checks[NoneType] = lambda _value: True

    def check(value: Any) -> bool:
        of_its_type = checks.get(type(value))
        return of_its_type is not None and of_its_type(value)

    return check


def _tuple_check(kinds: tuple[Any, ...], owner: Owner) -> Check:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        each = _check_of(kinds[0], owner)
        return lambda value: type(value) is tuple and all(map(each, value))
    checks = [_check_of(kind, owner) for kind in kinds]
    return lambda value: (
        type(value) is tuple
        and len(value) == len(checks)
        and all(check(one) for check, one in zip(checks, value, strict=True))
    )


def _mapping_check(kinds: tuple[Any, ...], owner: Owner) -> Check:
    of_key, of_value = _check_of(kinds[0], owner), _check_of(kinds[1], owner)
    return lambda value: (
        type(value) is dict and all(map(of_key, value)) and all(map(of_value, value.values()))
    )


def _number_check(declared: Any, owner: Owner) -> Check:
    limits = LIMITS.get(owner, PLAIN)
    least, most = limits.least, limits.most
    if declared is int:
        return lambda value: type(value) is int and least <= value <= most
    return lambda value: type(value) in (float, int) and isfinite(value) and least <= value <= most


@cache
def _text_check(owner: Owner) -> Check:
    may_be_empty = owner in MAY_BE_EMPTY
    return lambda value: (
        type(value) is str
        and len(value) <= MOST_CHARACTERS
        and value.isprintable()
        and (may_be_empty or bool(value.strip()))
    )

"""Reads any of our policy dataclasses from a mapping: its fields are the keys.

A field added to the model can be written in the file from that day on. Times lose their unit in the
key and carry it in the value: ``half_life: 7 d`` is ``half_life_ms``. Dollars are written as dollars:
``usd_per_hour: 40`` is ``micro_usd_per_hour``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from bursar.config.yaml.located_value import LocatedValue
from bursar.model.units import USD_MICRO

Made = TypeVar("Made")
TIME_SUFFIX = "_ms"
MONEY = "micro_usd"


@cache
def keys_of(kind: Any) -> dict[str, str]:
    """The keys of a dataclass as they are written, and the fields they fill."""
    return {key_of(one.name): one.name for one in fields(kind) if one.init}


def key_of(field: str) -> str:
    """How a field is written: durations and dollars carry their unit in the value."""
    return field.removesuffix(TIME_SUFFIX).replace(MONEY, "usd")


def all_keys(kind: type) -> Iterator[str]:
    """The keys of a dataclass and of every dataclass inside it."""
    hints = get_type_hints(kind)
    for key, field in keys_of(kind).items():
        yield key
        inner = _without_none(hints[field])
        if get_origin(inner) is tuple:
            inner = get_args(inner)[0]
        if is_dataclass(inner) and isinstance(inner, type):
            yield from all_keys(inner)


def read_dataclass(
    entry: LocatedValue, kind: type[Made], leave_out: frozenset[str] = frozenset()
) -> Made:
    """The value that a mapping describes; what it does not say keeps its default."""
    described: Any = kind
    fields_by_key = {k: name for k, name in keys_of(described).items() if k not in leave_out}
    hints = get_type_hints(described)
    said: dict[str, Any] = {}
    for key, value in entry.fields(fields_by_key).items():
        field = fields_by_key[key]
        if MONEY in field:
            said[field] = value.in_units(USD_MICRO, "micro-dollar")
        else:
            said[field] = _read(value, hints[field], is_time=field.endswith(TIME_SUFFIX))
    _refuse_what_is_missing(entry, described, said)
    return kind(**said)


def _refuse_what_is_missing(entry: LocatedValue, kind: Any, said: dict[str, Any]) -> None:
    for one in fields(kind):
        has_default = one.default is not MISSING or one.default_factory is not MISSING
        if one.init and not has_default and one.name not in said:
            fix = f"Write '{key_of(one.name)}: ...' below it."
            raise entry.wrong(f"does not say {key_of(one.name)!r}", fix, "missing-key")


def _read(entry: LocatedValue, declared: Any, *, is_time: bool) -> Any:
    inner = _without_none(declared)
    if entry.is_empty and inner is not declared:
        return None
    if get_origin(inner) is tuple:
        return tuple(_read(one, get_args(inner)[0], is_time=is_time) for one in entry.members())
    if is_time:
        return entry.duration_ms()
    return _read_plain(entry, inner)


def _read_plain(entry: LocatedValue, kind: Any) -> Any:
    if kind is bool:
        return entry.flag()
    if kind is int:
        return entry.whole()
    if kind is float:
        return float(entry.number())
    if kind is str:
        return entry.text()
    if issubclass(kind, Enum):
        return entry.choice(kind)
    return read_dataclass(entry, kind)


def _without_none(declared: Any) -> Any:
    """``int`` for ``int | None``; anything else as it is."""
    if get_origin(declared) in (Union, UnionType):
        inner = [one for one in get_args(declared) if one is not NoneType]
        if len(inner) == 1:
            return inner[0]
    return declared

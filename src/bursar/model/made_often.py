"""Frozen values that are made by the million.

The ``__init__`` that ``dataclass(frozen=True)`` writes must go around its own lock for every field, by the
name of the field, which takes several times as long as plain assignment. The one written here knows two
shorter ways around. To whoever gets it, the value is as frozen as any other.

It is a call behind the class and no decorator, so that the class can be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import update_wrapper
from types import MemberDescriptorType
from typing import Any

MANY = 7
"""From so many fields on it pays to open a value, fill it in and lock it again."""

ABSENT = object()


def made_often(frozen: type) -> None:
    """Give a frozen dataclass with slots, nothing but keywords and no ancestors a faster ``__init__``."""
    every = fields(frozen)
    has_slots = type(frozen.__dict__[every[0].name]) is MemberDescriptorType
    fill = _opening if has_slots and len(every) >= MANY else _by_slot
    names: dict[str, Any] = {"ABSENT": ABSENT}
    body = [line for one in every for line in _default(one, names)] + fill(frozen, every, names)
    said = ", ".join(_parameter(one) for one in every)
    lines = [
        f"def write({', '.join(names)}):",
        f" def __init__(self, *, {said}):",
        *(f"  {line}" for line in body),
        " return __init__",
    ]
    written: dict[str, Any] = {}
    exec("\n".join(lines), written)  # as dataclasses writes the one that is replaced
    make = written["write"](**names)
    was: Callable[..., None] = frozen.__init__  # type: ignore[misc]
    frozen.__init__ = update_wrapper(make, was)  # type: ignore[misc]


def _parameter(one: Field[Any]) -> str:
    if one.default is not MISSING:
        return f"{one.name}=default_{one.name}"
    return one.name if one.default_factory is MISSING else f"{one.name}=ABSENT"


def _default(one: Field[Any], names: dict[str, Any]) -> list[str]:
    """What stands for a field that nobody gave; some are made anew for each value."""
    if one.default is not MISSING:
        names[f"default_{one.name}"] = one.default
    if one.default_factory is MISSING:
        return []
    names[f"make_{one.name}"] = one.default_factory
    return [f"if {one.name} is ABSENT:", f" {one.name} = make_{one.name}()"]


def _by_slot(frozen: type, every: tuple[Field[Any], ...], names: dict[str, Any]) -> list[str]:
    """Each field by its own slot, which knows of no lock."""
    for one in every:
        names[f"set_{one.name}"] = frozen.__dict__[one.name].__set__
    return [f"set_{one.name}(self, {one.name})" for one in every]


def _opening(frozen: type, every: tuple[Field[Any], ...], names: dict[str, Any]) -> list[str]:
    """As a value of an open twin. It has the same slots, so that one may become the other."""
    twin = type(frozen.__name__, (), {"__slots__": tuple(one.name for one in every)})
    names |= {"become": object.__setattr__, "twin": twin, "frozen": frozen}
    assigned = [f"self.{one.name} = {one.name}" for one in every]
    return ['become(self, "__class__", twin)', *assigned, "self.__class__ = frozen"]

"""Frozen values that are made by the million.

The ``__init__`` that ``dataclass(frozen=True)`` writes must go around its own lock for every field, by the
name of the field, which takes several times as long as plain assignment. The one written here knows two
shorter ways around. To whoever gets it, the value is as frozen as any other.

A class of a compiled module says ``init=False`` and writes its ``__init__`` itself, field by field. Compiled,
that is plain assignment, which knows of no lock at all and takes a twentieth of the time, so it stays. Run
from the source it would meet the lock, and is replaced like any other.

It is a call behind the class and no decorator, so that the class can be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import cache, update_wrapper
from types import MemberDescriptorType
from typing import Any, TypeVar

Value = TypeVar("Value")

MANY = 7
"""From so many fields on it pays to open a value, fill it in and lock it again."""


def made_often(frozen: type) -> None:
    """Give a frozen dataclass with slots, nothing but keywords and no ancestors a faster ``__init__``."""
    was: Any = frozen.__init__  # type: ignore[misc]
    every = fields(frozen)
    if type(frozen.__dict__[every[0].name]) is not MemberDescriptorType:
        return  # compiled
    fill = _opening if len(every) >= MANY else _by_slot
    defaults = was.__kwdefaults__ or {}
    names: dict[str, Any] = {f"default_{name}": value for name, value in defaults.items()}
    body = [line for one in every for line in _made_anew(one, names)] + fill(frozen, every, names)
    said = (f"{one.name}=default_{one.name}" if one.name in defaults else one.name for one in every)
    lines = [
        f"def write({', '.join(names)}):",
        f" def __init__(self, *, {', '.join(said)}):",
        *(f"  {line}" for line in body),
        " return __init__",
    ]
    written: dict[str, Any] = {}
    exec("\n".join(lines), written)  # as dataclasses writes the one that is replaced
    frozen.__init__ = update_wrapper(written["write"](**names), was)  # type: ignore[misc]


def _made_anew(one: Field[Any], names: dict[str, Any]) -> list[str]:
    """Some defaults are made for each value; what stands for one until then is the dataclass's own mark."""
    if one.default_factory is MISSING:
        return []
    names[f"make_{one.name}"] = one.default_factory
    return [f"if {one.name} is default_{one.name}:", f" {one.name} = make_{one.name}()"]


def _by_slot(frozen: type, every: tuple[Field[Any], ...], names: dict[str, Any]) -> list[str]:
    """Each field by its own slot, which knows of no lock."""
    for one in every:
        names[f"set_{one.name}"] = frozen.__dict__[one.name].__set__
    return [f"set_{one.name}(self, {one.name})" for one in every]


def _opening(frozen: type, every: tuple[Field[Any], ...], names: dict[str, Any]) -> list[str]:
    """As a value of an open twin."""
    names |= {"become": object.__setattr__, "twin": _open_twin(frozen), "frozen": frozen}
    assigned = [f"self.{one.name} = {one.name}" for one in every]
    return ['become(self, "__class__", twin)', *assigned, "self.__class__ = frozen"]


@cache
def _open_twin(frozen: type) -> type:
    """A class without a lock. It has the same slots, so that a value of one may become one of the other."""
    return type(frozen.__name__, (), {"__slots__": tuple(one.name for one in fields(frozen))})


def copies_of(first: Value, *differing: str) -> Callable[..., Value]:
    """What makes values like the first that differ from it in these fields, which are given in this order.

    For values of a class that is not compiled. It takes a third of the time of making them by keywords: what
    they share is not handed over again, and a value that begins as an open one need not be opened.
    """
    kind: type = type(first)
    shared = tuple(one.name for one in fields(kind) if one.name not in differing)
    made: Callable[..., Value] = _copier(kind, differing, shared)(
        *(getattr(first, name) for name in shared)
    )
    return made


@cache
def _copier(
    frozen: type, differing: tuple[str, ...], shared: tuple[str, ...]
) -> Callable[..., Callable[..., Any]]:
    """Takes what the copies share; written once, for there may be a first value for each shape of job."""
    lines = [
        f"def write({', '.join(shared)}):",
        f" def copy({', '.join(differing)}):",
        "  self = twin()",
        *(f"  self.{name} = {name}" for name in (*shared, *differing)),
        "  self.__class__ = frozen",
        "  return self",
        " return copy",
    ]
    written: dict[str, Any] = {"twin": _open_twin(frozen), "frozen": frozen}
    exec("\n".join(lines), written)
    found: Callable[..., Callable[..., Any]] = written["write"]
    return found

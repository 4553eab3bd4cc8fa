"""Frozen values of many fields that are made by the million.

The ``__init__`` that ``dataclass(frozen=True)`` writes must go around its own lock for every field, which
takes several times as long as plain assignment. A value made here is open while it is filled in and is
locked once, at the end: to whoever gets it, it is as frozen as any other. It pays from about eight fields on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, make_dataclass
from functools import wraps
from typing import Any, TypeVar

Value = TypeVar("Value")


def made_often(frozen: type[Value]) -> type[Value]:
    """Give a frozen dataclass with slots and nothing but keywords a faster ``__init__``.

    The open twin has the same slots, so that a value of one may become a value of the other, and no lock.
    """
    twin = make_dataclass(
        frozen.__name__,
        [
            (one.name, Any, field(default=one.default, default_factory=one.default_factory))
            for one in fields(frozen)  # type: ignore[arg-type]
        ],
        slots=True,
        kw_only=True,
        repr=False,
        eq=False,
    )
    become: Callable[[Any, str, Any], None] = object.__setattr__
    fill: Callable[..., None] = twin.__init__  # type: ignore[misc]

    @wraps(frozen.__init__)
    def make(self: Value, **given: Any) -> None:
        become(self, "__class__", twin)
        fill(self, **given)
        self.__class__ = frozen

    frozen.__init__ = make  # type: ignore[assignment, method-assign]
    return frozen

"""Values that are made often are as frozen, as equal and as strict as any others."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from bursar.model.attempt import Placement, Task
from bursar.model.decision import StartJob
from bursar.model.event import (
    AttemptAssigned,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    JobSubmitted,
)
from bursar.model.made_often import MANY, copies_of, made_often
from bursar.simulate.trace import TraceJob

WRITTEN_OUT: tuple[type[Any], ...] = (
    AttemptAssigned,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    JobSubmitted,
    Placement,
    StartJob,
    Task,
    TraceJob,
)
"""Those that are made by an ``__init__`` of their own once they are compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Anything with a field of each kind."""

    number: int
    weight: int = 7
    labels: list[str] = field(default_factory=list)


made_often(Parcel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freight:
    """So many fields that it is filled in another way."""

    number: int
    weight: int = 7
    labels: list[str] = field(default_factory=list)
    length: int = 1
    width: int = 2
    height: int = 3
    sender: str = ""
    receiver: str = ""


made_often(Freight)


def test_fields_have_what_was_given_or_their_defaults() -> None:
    parcel = Parcel(number=1)
    assert (parcel.number, parcel.weight, parcel.labels) == (1, 7, [])
    assert repr(Parcel(number=1, weight=2)) == "Parcel(number=1, weight=2, labels=[])"


def test_each_has_a_default_of_its_own() -> None:
    assert Parcel(number=1).labels is not Parcel(number=1).labels


def test_it_is_frozen_once_it_is_made() -> None:
    parcel = Parcel(number=1)
    assert type(parcel) is Parcel
    with pytest.raises(FrozenInstanceError):
        parcel.number = 2  # type: ignore[misc]


def test_equal_fields_are_equal_values() -> None:
    assert Parcel(number=1, labels=["a"]) == Parcel(number=1, labels=["a"])
    assert Parcel(number=1) != Parcel(number=2)


def test_copies_are_equal_and_frozen() -> None:
    parcel = Parcel(number=1, labels=["a"])
    for other in (
        copy.deepcopy(parcel),
        pickle.loads(pickle.dumps(parcel)),
        replace(parcel, weight=7),
    ):
        assert other == parcel
        assert type(other) is Parcel


def test_what_is_missing_or_unknown_is_named() -> None:
    with pytest.raises(TypeError, match="number"):
        Parcel(weight=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="size"):
        Parcel(number=1, size=2)  # type: ignore[call-arg]


def test_many_fields_are_as_frozen_as_few() -> None:
    assert len(fields(Freight)) >= MANY > len(fields(Parcel))
    freight = Freight(number=1, receiver="b")
    assert type(freight) is Freight
    assert freight == replace(freight) == pickle.loads(pickle.dumps(freight))
    assert (freight.number, freight.weight, freight.height, freight.receiver) == (1, 7, 3, "b")
    assert Freight(number=1).labels is not Freight(number=1).labels
    with pytest.raises(FrozenInstanceError):
        freight.number = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="number"):
        Freight()  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", WRITTEN_OUT)
def test_an_init_that_is_written_out_does_what_a_dataclass_would(kind: type[Any]) -> None:
    """It runs only compiled: here it fills in a class that has the same fields and no lock."""
    written = inspect.unwrap(kind.__init__)
    if not inspect.isfunction(written):
        pytest.skip("it is compiled; whole runs are compared instead")
    names = [one.name for one in fields(kind)]
    defaults = {one.name: one.default for one in fields(kind) if one.default is not MISSING}
    assert written.__code__.co_varnames[1 : 1 + written.__code__.co_kwonlyargcount] == (*names,)
    assert (written.__kwdefaults__ or {}) == defaults
    given = {name: f"the {name}" for name in names}
    filled: Any = type("Open", (), {"__slots__": names})()
    written(filled, **given)
    assert {name: getattr(filled, name) for name in names} == given


def test_copies_differ_only_in_what_was_said() -> None:
    first = Freight(number=1, labels=["a"], width=9)
    copy_of = copies_of(first, "receiver", "number")
    made = copy_of("b", 2)
    assert made == replace(first, receiver="b", number=2)
    assert type(made) is Freight
    assert made.labels is first.labels
    with pytest.raises(FrozenInstanceError):
        made.number = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="number"):
        copy_of("b")


def test_copies_of_one_value_are_not_those_of_another() -> None:
    light, heavy = (copies_of(Parcel(number=0, weight=weight), "number") for weight in (1, 2))
    assert (light(5), heavy(5)) == (
        Parcel(number=5, weight=1, labels=[]),
        Parcel(number=5, weight=2),
    )

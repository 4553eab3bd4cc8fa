"""Values that are made often are as frozen, as equal and as strict as any others."""

from __future__ import annotations

import ast
import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from pathlib import Path

import pytest

import bursar
from bursar.model.made_often import MANY, copies_of, made_often

PACKAGE = Path(bursar.__file__).parent


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


def test_copies_differ_in_what_is_said_and_are_frozen() -> None:
    first = Freight(number=1, labels=["a"], receiver="b")
    copy_of = copies_of(first, "receiver", "number")
    other = copy_of("c", 2)
    assert other == replace(first, number=2, receiver="c")
    assert type(other) is Freight
    assert first == Freight(number=1, labels=["a"], receiver="b")
    with pytest.raises(FrozenInstanceError):
        other.number = 3  # type: ignore[misc]


def written_out() -> list[tuple[str, ast.ClassDef]]:
    """Every class of the package that is made often and writes out its ``__init__``."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        calls = [one.value for one in tree.body if isinstance(one, ast.Expr)]
        often = {ast.unparse(one) for one in calls if isinstance(one, ast.Call)}
        found += [
            (f"{file.relative_to(PACKAGE)}:{one.name}", one)
            for one in tree.body
            if isinstance(one, ast.ClassDef)
            and f"made_often({one.name})" in often
            and any(getattr(part, "name", "") == "__init__" for part in one.body)
        ]
    return found


@pytest.mark.parametrize(
    "written", [one for _, one in written_out()], ids=[name for name, _ in written_out()]
)
def test_a_written_out_init_fills_in_each_field_and_nothing_else(written: ast.ClassDef) -> None:
    declared = [one for one in written.body if isinstance(one, ast.AnnAssign)]
    names = [ast.unparse(one.target) for one in declared]
    init = next(one for one in written.body if isinstance(one, ast.FunctionDef))
    taken = init.args.kwonlyargs
    assert [(one.arg, ast.unparse(one.annotation or one)) for one in taken] == [
        (name, ast.unparse(one.annotation)) for name, one in zip(names, declared, strict=True)
    ]
    assert [_default(one) for one in init.args.kw_defaults] == [_default(o.value) for o in declared]
    assert [ast.unparse(one) for one in init.body] == [f"self.{name} = {name}" for name in names]


def _default(value: ast.expr | None) -> str | None:
    """What a field is when nothing is said; ``field(default=...)`` says it too."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        value = next(one.value for one in value.keywords if one.arg == "default")
    return None if value is None else ast.unparse(value)


def test_some_classes_write_out_their_init() -> None:
    assert len(written_out()) >= 10

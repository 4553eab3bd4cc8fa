"""Our frozen values as plain ones (mappings, lists, texts, numbers) and back, driven by declared types.

One rule for each way a type can be declared instead of two functions for each class: an event added
to the model can be written and read from that day on. What the types lead to is worked out once.

A member of a union carries the name of its class under ``type``. A mapping whose keys are not texts
becomes a list of pairs. A field marked ``LEFT_OUT`` is written only where it says something: what most
values do not have makes no log longer and no old text different.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from bursar.model.declared import declared_types
from bursar.model.errors import BrokenInvariant

TAG = "type"
LEFT_OUT = {"left out": "when it is the default"}
Convert = Callable[[Any], Any]


class NotThatValue(Exception):
    """A plain value does not describe what it should; says where in it and why."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path.lstrip('.')}: {problem}" if path else problem)
        self.problem = problem
        self.path = path

    def inside(self, step: str) -> NotThatValue:
        return NotThatValue(self.problem, f"{step}{self.path}")


# -- to plain --------------------------------------------------------------------------------------


@cache
def to_plain(declared: Any) -> Convert:
    """What turns a value of this declared type into a plain one."""
    origin, inner = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return _union_to_plain(inner)
    if origin is tuple:
        return _tuple_to_plain(inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_to_plain(*inner)
    if isinstance(declared, type) and issubclass(declared, Enum):
        return _value_of
    if is_dataclass(declared):
        return _dataclass_to_plain(declared)
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _value_of(value: Enum) -> Any:
    return value.value


def _union_to_plain(kinds: tuple[Any, ...]) -> Convert:
    others = [kind for kind in kinds if kind is not NoneType]
    if len(others) == 1:
        single = to_plain(others[0])
        return lambda value: None if value is None else single(value)
    converts = {kind: (kind.__name__, to_plain(kind)) for kind in others}

    def convert(value: Any) -> Any:
        if value is None:
            return None
        name, inner = converts[type(value)]
        return {TAG: name, **inner(value)}

    return convert


def _tuple_to_plain(kinds: tuple[Any, ...]) -> Convert:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        each = to_plain(kinds[0])
        return list if each is _as_it_is else lambda value: [each(one) for one in value]
    converts = [to_plain(kind) for kind in kinds]
    return lambda value: [one(part) for one, part in zip(converts, value, strict=True)]


def _mapping_to_plain(key: Any, value: Any) -> Convert:
    each = to_plain(value)
    if key is str:
        return lambda mapping: {name: each(one) for name, one in mapping.items()}
    of_key = to_plain(key)
    return lambda mapping: [[of_key(name), each(one)] for name, one in mapping.items()]


def _dataclass_to_plain(kind: Any) -> Convert:
    hints = declared_types(kind)
    names = [one.name for one in fields(kind) if one.init]
    if TAG in names:
        raise BrokenInvariant(f"{kind.__name__} has a field {TAG!r}, which marks members of unions")
    rare = {one.name: one.default for one in fields(kind) if one.metadata == LEFT_OUT}
    converts = [(name, to_plain(hints[name])) for name in names if name not in rare]
    if not rare:
        return lambda value: {name: convert(getattr(value, name)) for name, convert in converts}

    def convert_rare(value: Any) -> Any:
        found = {name: convert(getattr(value, name)) for name, convert in converts}
        for name, default in rare.items():
            if (said := getattr(value, name)) != default:
                found[name] = to_plain(hints[name])(said)
        return found

    return convert_rare


# -- from plain ------------------------------------------------------------------------------------


@cache
def from_plain(declared: Any) -> Convert:
    """What turns a plain value back; raises ``NotThatValue`` when it is of another type."""
    origin, inner = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return _union_from_plain(inner)
    if origin is tuple:
        return _tuple_from_plain(inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_from_plain(*inner)
    if isinstance(declared, type) and issubclass(declared, Enum):
        return _enum_from_plain(declared)
    if is_dataclass(declared):
        return _dataclass_from_plain(declared)
    return _scalar_from_plain(declared)


def _scalar_from_plain(kind: Any) -> Convert:
    allowed = (int, float) if kind is float else (kind,)

    def convert(value: Any) -> Any:
        if type(value) not in allowed:
            raise _wrong(value, f"a {kind.__name__}")
        return value

    return convert


def _wrong(value: object, wanted: str) -> NotThatValue:
    return NotThatValue(f"{str(value)[:60]!r} is of type {type(value).__name__}, not {wanted}")


def _enum_from_plain(kind: type[Enum]) -> Convert:
    members = {one.value: one for one in kind}

    def convert(value: Any) -> Any:
        if not isinstance(value, str | int) or value not in members:
            known = ", ".join(str(one) for one in members)
            raise NotThatValue(f"{str(value)[:60]!r} is none of {known}")
        return members[value]

    return convert


def _union_from_plain(kinds: tuple[Any, ...]) -> Convert:
    others = [kind for kind in kinds if kind is not NoneType]
    convert = from_plain(others[0]) if len(others) == 1 else _members_from_plain(others)
    if len(others) == len(kinds):
        return convert
    return lambda value: None if value is None else convert(value)


def _members_from_plain(kinds: list[Any]) -> Convert:
    converts = {kind.__name__: from_plain(kind) for kind in kinds}

    def convert(value: Any) -> Any:
        if not isinstance(value, dict) or TAG not in value:
            raise NotThatValue(f"there is no {TAG!r} that says what it is")
        name = value[TAG]
        if not isinstance(name, str) or name not in converts:
            raise NotThatValue(f"{str(name)[:60]!r} is no {TAG}{_meant(str(name), converts)}")
        return converts[name]({key: one for key, one in value.items() if key != TAG})

    return convert


def _meant(name: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _tuple_from_plain(kinds: tuple[Any, ...]) -> Convert:
    endless = len(kinds) == 2 and kinds[1] is Ellipsis
    converts = [from_plain(kind) for kind in (kinds[:1] if endless else kinds)]

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        if not endless and len(value) != len(converts):
            raise NotThatValue(f"there are {len(value)} values, not {len(converts)}")
        each = converts * len(value) if endless else converts
        return tuple(
            _within(f"[{index}]", one, part)
            for index, (one, part) in enumerate(zip(each, value, strict=True))
        )

    return convert


def _mapping_from_plain(key: Any, value: Any) -> Convert:
    each = from_plain(value)
    if key is str:
        return lambda plain: {
            name: _within(f"[{name}]", each, one) for name, one in _mapping(plain).items()
        }
    pairs = _tuple_from_plain((tuple[key, value], ...))
    return lambda plain: dict(pairs(plain))


def _mapping(plain: Any) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise _wrong(plain, "a mapping")
    return plain


def _dataclass_from_plain(kind: Any) -> Convert:
    hints = declared_types(kind)
    converts = {
        one.name: _when_asked(hints[one.name])
        if one.metadata == LEFT_OUT
        else from_plain(hints[one.name])
        for one in fields(kind)
        if one.init
    }
    required = [one.name for one in fields(kind) if one.init and not _has_default(one)]

    def convert(value: Any) -> Any:
        plain = _mapping(value)
        for name in plain:
            if name not in converts:
                what = f"{kind.__name__} has no field {name[:60]!r}{_meant(name, converts)}"
                raise NotThatValue(what)
        for name in required:
            if name not in plain:
                raise NotThatValue(f"{kind.__name__} lacks {name!r}")
        said = {name: _within(f".{name}", converts[name], one) for name, one in plain.items()}
        return kind(**said)

    return convert


def _when_asked(declared: Any) -> Convert:
    """Worked out when it is first met: such a field may hold a value of its own class."""
    return lambda value: from_plain(declared)(value)


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _within(step: str, convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except NotThatValue as error:
        raise error.inside(step) from None

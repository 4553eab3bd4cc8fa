"""Key tables of the policy dataclasses: their fields are the keys.

A field added to the model is a key of the file at once, and needs a meaning. A duration has its unit
in the value, not in the key: ``half_life: 7 d`` fills ``half_life_ms``. Money is written in dollars:
``usd_per_hour: 40`` fills ``micro_usd_per_hour``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from bursar.config.yaml.key_tables import (
    BOOLEAN,
    DURATION,
    INTEGER,
    LABEL,
    USD,
    FileKey,
    KeyTable,
    ValueFormat,
    by_field,
    choice_of,
    described,
    either,
    list_of,
    read_mapping,
    write_mapping,
)
from bursar.config.yaml.value_readers import number

Meanings = Mapping[type, Mapping[str, str]]
"""What each key means, by dataclass and key."""
TIME_SUFFIX = "_ms"
MONEY = "micro_usd"
DECIMAL = ValueFormat(lambda value: float(number(value)), {"type": "number"})
PLAIN_FORMATS = {bool: BOOLEAN, int: INTEGER, float: DECIMAL, str: LABEL}


def key_of(field: str) -> str:
    """The key of a field: the units of durations and money are in the value."""
    return field.removesuffix(TIME_SUFFIX).replace(MONEY, "usd")


def dataclass_format(
    kind: Any, name: str, meanings: Meanings, leave_out: tuple[str, ...] = ()
) -> ValueFormat:
    """A mapping that describes an instance of a dataclass; what it leaves out has its default."""
    hints = get_type_hints(kind)
    in_file = [one for one in fields(kind) if one.init and one.name not in leave_out]
    table = KeyTable(
        name=name,
        keys={
            key_of(one.name): FileKey(
                meaning=meanings[kind][key_of(one.name)],
                format=_format(hints[one.name], one.name, meanings),
                field=one.name,
                nullable=_without_none(hints[one.name]) is not hints[one.name],
            )
            for one in in_file
        },
        required=tuple(
            key_of(one.name)
            for one in in_file
            if one.default is MISSING and one.default_factory is MISSING
        ),
    )
    return ValueFormat(
        lambda value: kind(**by_field(read_mapping(value, table), table)),
        {**described(table), "type": "object"},
        lambda one: write_mapping(one, table),
    )


def _format(declared: Any, field: str, meanings: Meanings) -> ValueFormat:
    inner = _without_none(declared)
    if MONEY in field:
        return USD
    if inner is not declared:
        present = _format(inner, field, meanings)
        schema = either(present.schema, {"type": "null"})
        return ValueFormat(present.read, schema, present.write)
    if get_origin(declared) is tuple:
        return list_of(_format(get_args(declared)[0], field, meanings))
    if field.endswith(TIME_SUFFIX):
        return DURATION
    if is_dataclass(declared):
        return dataclass_format(declared, field, meanings)
    if issubclass(declared, Enum):
        return choice_of(declared)
    return PLAIN_FORMATS[declared]


def _without_none(declared: Any) -> Any:
    """``int`` for ``int | None``; any other type unchanged."""
    if get_origin(declared) in (Union, UnionType):
        inner = [one for one in get_args(declared) if one is not NoneType]
        if len(inner) == 1:
            return inner[0]
    return declared

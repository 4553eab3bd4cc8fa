"""Tables of the keys that a mapping may have: meaning, reader, writer and JSON Schema in one row.

The file readers, the writer and the published schemas all use these tables, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from decimal import Decimal
from enum import Enum
from typing import Any

from bursar.config.yaml.value_readers import (
    UNITS_MS,
    InvalidValue,
    Read,
    boolean,
    duration_ms,
    in_units,
    members,
    named,
    plain_text,
    shown,
    whole,
)
from bursar.config.yaml.yaml_text import MOST_VALUES
from bursar.core.admission.problem import suggest
from bursar.core.admission.value_limits import LARGEST
from bursar.model.suggestion import close_names
from bursar.model.units import USD_MICRO

Schema = Mapping[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def as_is(value: Any) -> Any:
    """The value itself."""
    return value


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """How one kind of value is read, described in JSON Schema, and written."""

    read: Read
    schema: Schema
    write: Callable[[Any], Any] = as_is


@dataclass(frozen=True, slots=True)
class FileKey:
    """One key of a mapping.

    ``field`` is the field of the model that the value fills, if it is not named like the key. With
    ``nullable``, null is a value of its own; otherwise a key with null counts as left out.
    """

    meaning: str
    format: ValueFormat
    field: str = ""
    nullable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTable:
    """The keys of one mapping.

    ``meant`` maps other spellings to the right key; ``refused`` maps keys of other tools that have no
    counterpart here to advice. The keys in ``without_field`` fill no field of the model.
    """

    name: str
    keys: Mapping[str, FileKey]
    required: tuple[str, ...] = ()
    meant: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    without_field: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(init=False)
    """The model's field that each key fills, by key."""

    def __post_init__(self) -> None:
        filled = {
            name: key.field or name
            for name, key in self.keys.items()
            if name not in self.without_field
        }
        object.__setattr__(self, "fields", filled)


# -- reading -----------------------------------------------------------------------------------------


def read_mapping(plain: Any, table: KeyTable) -> dict[str, Any]:
    """Read every key of a mapping; a key with null counts as left out."""
    if not isinstance(plain, dict):
        raise InvalidValue(
            f"is {shown(plain)}, not a mapping", "Write 'key: value' lines.", "wrong-type"
        )
    values: dict[str, Any] = {}
    keys = table.keys
    for name, value in plain.items():
        key = keys.get(name)
        if key is None:
            raise unknown_key(name, table).inside(str(name))
        if value is not None:
            try:
                values[name] = key.format.read(value)
            except InvalidValue as error:
                raise error.inside(name) from None
        elif key.nullable:
            values[name] = None
    require(values, table.required)
    return values


def read_mapping_or_null(plain: Any, table: KeyTable) -> dict[str, Any]:
    """Read a mapping; null counts as an empty one."""
    return read_mapping({} if plain is None else plain, table)


def require(values: Mapping[str, Any], required: tuple[str, ...]) -> None:
    """Reject a mapping that lacks a key without a default."""
    missing = ", ".join(repr(key) for key in required if key not in values)
    if missing:
        raise InvalidValue(f"lacks {missing}", f"Add {missing}.", "missing-key")


def unknown_key(name: object, table: KeyTable) -> InvalidValue:
    """The error for a key that is not in the table, with the closest key that is."""
    text = str(name)[:60]
    plain = text.lower().replace("-", "_")
    if plain in table.refused:
        problem = f"{text!r} of {table.name} has no counterpart here"
        return InvalidValue(problem, table.refused[plain], "not-supported", at_key=True)
    problem = f"{text!r} is not a key of {table.name}"
    meant = plain if plain in table.keys else table.meant.get(plain)
    if meant is None:
        meant = _closest_alias(plain, table)
    fix = f"Did you mean {meant!r}?" if meant else suggest(plain, table.keys, "key")
    return InvalidValue(problem, fix, "unknown-key", at_key=True)


def _closest_alias(plain: str, table: KeyTable) -> str | None:
    """The key for a misspelt alias, or None."""
    close = close_names(plain, sorted({*table.keys, *table.meant}), cutoff=0.75)
    return table.meant.get(close[0]) if close else None


def by_field(values: Mapping[str, Any], table: KeyTable) -> dict[str, Any]:
    """Values by the model's field that each fills; keys that fill none are left out."""
    fields = table.fields
    return {fields[name]: value for name, value in values.items() if name in fields}


# -- writing -----------------------------------------------------------------------------------------


def write_mapping(value: Any, table: KeyTable, default: Any = None) -> dict[str, Any]:
    """A model value as a mapping, without fields that have their default."""
    defaults = _defaults(type(value)) if default is None else {}
    written: dict[str, Any] = {}
    for name, field_name in table.fields.items():
        current = getattr(value, field_name)
        usual = defaults[field_name] if default is None else getattr(default, field_name)
        if current != usual:
            written[name] = None if current is None else table.keys[name].format.write(current)
    return written


def _defaults(kind: Any) -> dict[str, Any]:
    return {
        one.name: one.default if one.default_factory is MISSING else one.default_factory()
        for one in fields(kind)
    }


def exact_amount(units: int, per_one: int) -> int | Decimal:
    """Small units as an exact number."""
    quotient, remainder = divmod(units, per_one)
    return quotient if not remainder else (Decimal(units) / per_one).normalize()


def exact_duration(duration_ms: int) -> str:
    """``1 h 30 min``: an exact duration in as few units as possible."""
    parts = []
    for unit, unit_ms in sorted(UNITS_MS.items(), key=lambda one: -one[1]):
        count, duration_ms = divmod(duration_ms, unit_ms)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


# -- formats -----------------------------------------------------------------------------------------

NUMBER_SCHEMA: Schema = {"type": "number", "minimum": 0}
BOOLEAN = ValueFormat(boolean, {"type": "boolean"})
LABEL = ValueFormat(plain_text, {"type": ["string", "integer"]})
STRING = ValueFormat(plain_text, {"type": "string"})
COUNT = ValueFormat(whole(0, LARGEST), {"type": "integer", "minimum": 0})
INTEGER = ValueFormat(whole(-LARGEST, LARGEST), {"type": "integer"})
DURATION = ValueFormat(duration_ms, {"type": "string"}, exact_duration)


def amount(per_one: int, unit: str) -> ValueFormat:
    """An exact amount, stored as a whole number of small units."""
    return ValueFormat(
        lambda value: in_units(value, per_one, unit),
        NUMBER_SCHEMA,
        lambda units: exact_amount(units, per_one),
    )


USD = amount(USD_MICRO, "micro-dollar")


def choice_of(choices: type[Enum]) -> ValueFormat:
    """One value of an enum."""
    known = {str(one.value): one for one in choices}

    def read(value: Any) -> Enum:
        word = plain_text(value)
        if word in known:
            return known[word]
        raise InvalidValue(f"is {shown(value)}", suggest(word, known, "choice"), "unknown-choice")

    return ValueFormat(read, {"enum": list(known)}, lambda one: one.value)


def list_of(member: ValueFormat) -> ValueFormat:
    """A list, read as a tuple."""
    return ValueFormat(
        lambda value: tuple(members(value, member.read, MOST_VALUES)),
        {"type": "array", "items": member.schema},
        lambda values: [member.write(one) for one in values],
    )


def by_name(member: ValueFormat) -> ValueFormat:
    """A mapping whose keys are names that the user chooses."""
    return ValueFormat(
        lambda value: named(value, plain_text, member.read, MOST_VALUES),
        {"type": ["object", "null"], "additionalProperties": member.schema},
        lambda values: {name: member.write(one) for name, one in values.items()},
    )


def mapping(table: KeyTable, build: Callable[..., Any] = dict, default: Any = None) -> ValueFormat:
    """A mapping that fills the fields of a model class; null counts as an empty mapping.

    With ``default``, what is left out has the value it has there.
    """
    usual = {} if default is None else {f: getattr(default, f) for f in table.fields.values()}

    def read(value: Any) -> Any:
        return build(**(usual | by_field(read_mapping_or_null(value, table), table)))

    return ValueFormat(read, described(table), lambda one: write_mapping(one, table, default))


# -- schemas -----------------------------------------------------------------------------------------


def either(*schemas: Schema) -> Schema:
    """The schema of a value that may have any of these forms."""
    return {"anyOf": list(schemas)}


def described(table: KeyTable) -> dict[str, Any]:
    """The JSON Schema of a mapping, each key with its meaning."""
    properties = {
        name: {"description": key.meaning, **key.format.schema} for name, key in table.keys.items()
    }
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}

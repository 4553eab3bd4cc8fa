"""JSON Schemas of the wire types, worked out from their declarations."""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Schema = dict[str, Any]

_SCALARS: dict[type, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
}


def reference(kind: Any) -> Schema:
    """A pointer to the schema of a wire type among the components."""
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def schema_of(declared: Any) -> Schema:
    """The schema of a declared type; wire types are pointed to."""
    origin, inner = get_origin(declared), get_args(declared)
    if origin in (NotRequired, Required):
        return schema_of(inner[0])
    if is_typeddict(declared):
        return reference(declared)
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(one) for one in inner]}
    if origin is list:
        return {"type": "array", "items": schema_of(inner[0])}
    if origin is dict:
        value = {} if inner[1] is Any else schema_of(inner[1])
        return {"type": "object", "additionalProperties": value or True}
    return dict(_SCALARS[declared])


@cache
def body_of(kind: Any) -> Schema:
    """The schema of a wire type itself; what it does not name it does not allow."""
    hints = get_type_hints(kind, include_extras=True)
    described = {"description": " ".join(kind.__doc__.split())} if kind.__doc__ else {}
    return {
        "type": "object",
        **described,
        "properties": {name: schema_of(hint) for name, hint in hints.items()},
        "required": sorted(
            name for name, hint in hints.items() if get_origin(hint) is not NotRequired
        ),
        "additionalProperties": False,
    }


def components(kinds: tuple[Any, ...]) -> dict[str, Schema]:
    """The schemas of these wire types and of all that they point to."""
    found: dict[str, Schema] = {}
    left = list(kinds)
    while left:
        kind = left.pop()
        if kind.__name__ in found:
            continue
        found[kind.__name__] = body_of(kind)
        for hint in get_type_hints(kind, include_extras=True).values():
            left.extend(_wire_types_in(hint))
    return dict(sorted(found.items()))


def _wire_types_in(declared: Any) -> list[Any]:
    if is_typeddict(declared):
        return [declared]
    return [kind for inner in get_args(declared) for kind in _wire_types_in(inner)]

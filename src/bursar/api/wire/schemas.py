"""JSON Schemas of the wire types, which msgspec reads off their declarations."""

from __future__ import annotations

from typing import Any

import msgspec

Schema = dict[str, Any]
_TEMPLATE = "#/components/schemas/{name}"


def reference(kind: Any) -> Schema:
    """A pointer to the schema of a wire type among the components."""
    return {"$ref": _TEMPLATE.format(name=kind.__name__)}


def components(kinds: tuple[Any, ...]) -> dict[str, Schema]:
    """The schemas of these wire types and of all that they point to."""
    _, found = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    for schema in found.values():
        del schema["title"]
        schema["additionalProperties"] = False
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
    return dict(sorted(found.items()))

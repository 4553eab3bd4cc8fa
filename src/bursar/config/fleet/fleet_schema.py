"""The JSON Schema of a fleet file, from the keys it is read with and the policies of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from bursar.config.fleet import fleet_keys
from bursar.config.yaml.dataclass_reader import MONEY, TIME_SUFFIX, keys_of
from bursar.model.fleet.fleet import EngineKind, Market
from bursar.model.tenants.policy import Policies, Reclaim, WithinQueue
from bursar.model.tenants.tenant import BudgetAction, BudgetPeriod, Enforcement, Queueing

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NUMBER: Schema = {"type": "number", "minimum": 0}
WHOLE: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
NAME: Schema = {"type": ["string", "integer"]}
TIME: Schema = {"type": "string"}


def fleet_schema() -> Schema:
    """The schema of one file; a folder of files is read as one."""
    sections = {
        "clusters": _by_name(_mapping(fleet_keys.CLUSTER, CLUSTER)),
        "pools": _by_name(_mapping(fleet_keys.POOL, POOL)),
        "tenants": _by_name({"$ref": "#/$defs/tenant"}),
        "priority_classes": _by_name({"type": "integer"}),
        "policies": _policies(),
    }
    return {
        "$schema": DIALECT,
        "title": "Bursar fleet",
        "description": "What there is to run on, who shares it, and by which rules.",
        **_mapping(fleet_keys.FILE, sections),
        "$defs": {"tenant": _mapping(fleet_keys.TENANT, TENANT)},
    }


def _mapping(meanings: Mapping[str, str], schemas: Mapping[str, Schema]) -> Schema:
    """Every key that is read, with its meaning; a key without a schema would be a mistake here."""
    properties = {key: {"description": meanings[key], **schemas[key]} for key in meanings}
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def _by_name(schema: Schema) -> Schema:
    return {"type": ["object", "null"], "additionalProperties": schema}


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def _choice(choices: type[Enum]) -> Schema:
    return {"enum": [one.value for one in choices]}


# -- values ------------------------------------------------------------------------------------------

LABELS = _by_name(NAME)
CLUSTER: Mapping[str, Schema] = {
    "engine": _choice(EngineKind),
    "topology": _list_of(NAME),
    "nodes": WHOLE,
    "gpus": {"type": "string"},
    "cpus": NUMBER,
    "memory_gib": NUMBER,
    "disk_gib": NUMBER,
    "usd_per_node_hour": NUMBER,
}
NODE = _mapping(fleet_keys.NODE, {"id": NAME, "labels": LABELS})
PATTERN = _mapping(
    fleet_keys.NODE_PATTERN, {"count": WHOLE, "prefix": NAME, "per_domain": _by_name(WHOLE)}
)
POOL: Mapping[str, Schema] = {
    "cluster": NAME,
    "market": _choice(Market),
    "gpu_model": {"type": "string"},
    "gpus_per_node": WHOLE,
    "gpus": {"type": "string"},
    "cpus": NUMBER,
    "memory_gib": NUMBER,
    "disk_gib": NUMBER,
    "usd_per_node_hour": NUMBER,
    "owned": _mapping(fleet_keys.OWNED, dict.fromkeys(fleet_keys.OWNED, NUMBER)),
    "interruptions_per_million_hours": NUMBER,
    "labels": LABELS,
    "taints": _list_of(_mapping(fleet_keys.TAINT, {"key": NAME, "value": NAME})),
    "mig": FLAG,
    "mps_clients": WHOLE,
    "nodes": _either(WHOLE, PATTERN, _list_of(_either(NAME, NODE))),
}
LIMIT: Schema = {"type": ["number", "null"], "minimum": 0}
AMOUNT = _either(
    NUMBER, _mapping(fleet_keys.ALLOWANCE, {"nominal": NUMBER, "borrow": LIMIT, "lend": LIMIT})
)
TENANT: Mapping[str, Schema] = {
    "parent": NAME,
    "children": _by_name({"$ref": "#/$defs/tenant"}),
    "queue": FLAG,
    "weight": NUMBER,
    "quotas": _by_name(
        _either(NUMBER, _mapping(fleet_keys.QUOTA, dict.fromkeys(fleet_keys.QUOTA, AMOUNT)))
    ),
    "budget": _either(
        NUMBER,
        _mapping(
            fleet_keys.BUDGET,
            {
                "usd": NUMBER,
                "period": _choice(BudgetPeriod),
                "enforcement": _choice(Enforcement),
                "steps": _list_of(
                    _mapping(
                        fleet_keys.BUDGET_STEP,
                        {"at_percent": WHOLE, "action": _choice(BudgetAction)},
                    )
                ),
            },
        ),
    ),
    "queueing": _choice(Queueing),
    "preemption": _mapping(
        fleet_keys.PREEMPTION,
        {
            "within_queue": _choice(WithinQueue),
            "reclaim": _choice(Reclaim),
            "borrow_while_reclaiming": _either(
                FLAG, _mapping(fleet_keys.BORROWING, {"max_priority": {"type": "integer"}})
            ),
        },
    ),
}


# -- policies: the fields of the model are the keys ----------------------------------------------------


def _policies() -> Schema:
    schema = _of_dataclass(Policies)
    del schema["properties"]["priority_classes"]
    return schema


def _of_dataclass(kind: Any) -> Schema:
    hints = get_type_hints(kind)
    properties = {
        key: NUMBER
        if MONEY in field
        else _of_type(hints[field], is_time=field.endswith(TIME_SUFFIX))
        for key, field in keys_of(kind).items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _of_type(declared: Any, *, is_time: bool) -> Schema:
    if get_origin(declared) in (Union, UnionType):
        inner = next(one for one in get_args(declared) if one is not NoneType)
        return _either(_of_type(inner, is_time=is_time), {"type": "null"})
    if get_origin(declared) is tuple:
        return _list_of(_of_type(get_args(declared)[0], is_time=is_time))
    if is_time:
        return TIME
    if isinstance(declared, type) and issubclass(declared, Enum):
        return _choice(declared)
    if is_dataclass(declared):
        return _of_dataclass(declared)
    return {bool: FLAG, int: {"type": "integer"}, float: {"type": "number"}, str: NAME}.get(
        declared, {"type": "object"}
    )

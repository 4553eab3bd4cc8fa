"""Every key of the job file: what it means, how it is read, and its JSON Schema, side by side.

The reader refuses what is not here, the published schema is made of these rows, and
``docs/job-file.md`` is compared with them by a test. So the three cannot say different things.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bursar.config.job import resources as res
from bursar.config.job.environment import envs, secrets
from bursar.config.job.file_mounts import file_mounts, workdir
from bursar.config.job.times import deadline, grace_seconds, stop_signal
from bursar.config.yaml.value_readers import (
    FileKey,
    InvalidValue,
    KeyTable,
    duration_ms,
    flag,
    hours_ms,
    in_units,
    members,
    name_text,
    named,
    read_mapping,
    script,
    shown,
    text,
    whole,
)
from bursar.core.admission.value_limits import MOST_ARRAY
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import CheckpointPolicy, SliceLayer, Spread, Topology
from bursar.model.units import USD_MICRO

MOST_NODES = 100_000
MOST_RETRIES = 1_000
MOST_DEPENDENCIES = 1_000
MOST_LABELS = 64
MOST_WORDS = 4_096

Schema = Mapping[str, Any]
TEXT: Schema = {"type": ["string", "integer"], "minLength": 1, "maxLength": 253}
PATH: Schema = {"type": "string", "minLength": 1}
WORD: Schema = {"type": ["string", "integer"]}
NAME: Schema = {"type": ["string", "integer"], "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"}
FLAG: Schema = {"type": "boolean"}
AMOUNT: Schema = {"type": ["number", "string"], "minimum": 0}
TIME: Schema = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|min|h|d|w)"}
SCRIPT: Schema = {"type": "string"}
VARIABLES: Schema = {
    "type": "object",
    "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"},
    "additionalProperties": {"type": ["string", "integer", "number", "boolean"]},
}


def _whole(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def as_schema(table: KeyTable) -> dict[str, Any]:
    """The JSON Schema of one mapping; nothing after a key is the same as leaving it out."""
    properties = {
        name: {"description": key.meaning, "anyOf": [key.schema, {"type": "null"}]}
        for name, key in table.keys.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


# -- where tasks run -----------------------------------------------------------------------------------

LAYER = KeyTable(
    name="a layer",
    keys={
        "level": FileKey(meaning="the topology level", read=text, schema=TEXT),
        "size": FileKey(
            meaning="how many tasks share one domain of it",
            read=whole(1, MOST_NODES),
            schema=_whole(1, MOST_NODES),
        ),
    },
)


def _layer(value: Any) -> SliceLayer:
    said = read_mapping(value, LAYER)
    if len(said) < len(LAYER.keys):
        raise InvalidValue("lacks 'level' or 'size'", "Write both.", "missing-key")
    return SliceLayer(level=said["level"], size=said["size"])


TOPOLOGY = KeyTable(
    name="topology",
    keys={
        "required": FileKey(
            meaning="the level of which one domain must hold all tasks", read=text, schema=TEXT
        ),
        "preferred": FileKey(
            meaning="the level of which one domain should hold all tasks", read=text, schema=TEXT
        ),
        "layers": FileKey(
            meaning="groups of tasks that must be together, from wide to narrow",
            read=lambda value: tuple(members(value, _layer, 16)),
            schema=_list_of(as_schema(LAYER)),
        ),
    },
)
SPREAD = KeyTable(
    name="spread",
    keys={
        "level": FileKey(
            meaning="the topology level; node is the narrowest", read=text, schema=TEXT
        ),
        "max_tasks": FileKey(
            meaning="how many tasks may share one domain of it; left out: 1",
            read=whole(1, MOST_NODES),
            schema=_whole(1, MOST_NODES),
        ),
    },
)


def _topology(value: Any) -> Topology:
    return Topology(**read_mapping(value, TOPOLOGY))


def _spread(value: Any) -> Spread:
    return (
        Spread(level=text(value))
        if isinstance(value, str)
        else Spread(**read_mapping(value, SPREAD))
    )


# -- resources ---------------------------------------------------------------------------------------

_COUNT = _whole(1, 1024)
_MODEL_COUNT: Schema = {"type": "object", "additionalProperties": _COUNT, "minProperties": 1}
_ACCELERATORS = FileKey(
    meaning="GPUs of each task: a model and how many; a list is by preference, a mapping is any of",
    read=res.accelerators,
    schema=_either(TEXT, _COUNT, _MODEL_COUNT, _list_of(_either(TEXT, _MODEL_COUNT))),
)
_USE_SPOT = FileKey(
    meaning="true: on spot nodes alone; false: never; allowed: where it is expected to cost least",
    read=res.spot_markets,
    schema=_either(FLAG, {"const": res.ALLOWED}),
)
_MARKETS = FileKey(
    meaning="markets by name, the most welcome first; instead of use_spot",
    read=res.markets,
    schema=_list_of({"enum": [str(one.value) for one in Market]}),
)
_ONLY_OUTSIDE = "It holds for all alternatives: write it once, outside the list."
_GPU = FileKey(
    meaning="a part of one GPU for each task: 'mig 1g.10gb', 'mps 25%' or 'mps 25% 8 GiB'",
    read=res.gpu_share,
    schema={"type": "string", "pattern": "^[Mm][IiPp][GgSs][ :]"},
)
ALTERNATIVE = KeyTable(
    name="an alternative",
    keys={"accelerators": _ACCELERATORS, "use_spot": _USE_SPOT, "markets": _MARKETS},
    meant={"accelerator": "accelerators", "gpus": "accelerators", "spot": "use_spot"},
    refused=dict.fromkeys(
        ("cpus", "memory", "disk_size", "gpu", "gpu_memory", "node_labels", "tolerations"),
        _ONLY_OUTSIDE,
    )
    | {"anchors_percent": _ONLY_OUTSIDE}
    | dict.fromkeys(
        ("infra", "cloud", "region", "zone", "instance_type"),
        "Bursar chooses among the pools of its fleet: leave it out, or write node_labels outside.",
    ),
)


def _alternatives(value: Any) -> list[dict[str, Any]]:
    return members(value, lambda one: read_mapping(one, ALTERNATIVE), res.MOST_ALTERNATIVES)


_POOLS = "Bursar chooses among the pools of its fleet: leave it out, or write 'node_labels'."
RESOURCES = KeyTable(
    name="resources",
    keys={
        "accelerators": _ACCELERATORS,
        "gpu": _GPU,
        "gpu_memory": FileKey(
            meaning="GiB that each GPU must have at least", read=res.memory_mib, schema=AMOUNT
        ),
        "cpus": FileKey(
            meaning="CPUs of each task: 4, 0.5 or 4+", read=res.cpu_milli, schema=AMOUNT
        ),
        "memory": FileKey(
            meaning="memory of each task in GiB: 32 or 32+; or with a unit, 512 MiB",
            read=res.memory_mib,
            schema=AMOUNT,
        ),
        "disk_size": FileKey(
            meaning="local disk of each task in GiB", read=res.memory_mib, schema=AMOUNT
        ),
        "use_spot": _USE_SPOT,
        "markets": _MARKETS,
        "anchors_percent": FileKey(
            meaning="so many percent of a job's tasks that may run on spot never do; rounded up",
            read=whole(1, 100),
            schema=_whole(1, 100),
        ),
        "any_of": FileKey(
            meaning="alternatives, the cheapest is taken",
            read=_alternatives,
            schema=_list_of(as_schema(ALTERNATIVE)),
        ),
        "ordered": FileKey(
            meaning="alternatives, the first that fits is taken",
            read=_alternatives,
            schema=_list_of(as_schema(ALTERNATIVE)),
        ),
        "node_labels": FileKey(
            meaning="labels that every node of the job must have",
            read=res.node_labels,
            schema={"type": "object", "additionalProperties": WORD},
        ),
        "tolerations": FileKey(
            meaning="taints that the job does not mind: a key, or key=value",
            read=res.tolerations,
            schema=_either(TEXT, _list_of(TEXT)),
        ),
    },
    meant={
        **dict.fromkeys(("gpus", "gpu_count", "num_gpus", "gpu_type", "gpu_model"), "accelerators"),
        **dict.fromkeys(("cpu", "vcpus", "num_cpus", "cores"), "cpus"),
        **dict.fromkeys(("mem", "ram", "memory_gib", "memory_gb"), "memory"),
        **dict.fromkeys(("disk", "storage", "disk_gib"), "disk_size"),
        **dict.fromkeys(("spot", "preemptible"), "use_spot"),
        **dict.fromkeys(("vram",), "gpu_memory"),
        **dict.fromkeys(("market",), "markets"),
        **dict.fromkeys(("anchors", "on_demand_percent"), "anchors_percent"),
        **dict.fromkeys(("node_selector", "constraint"), "node_labels"),
    },
    refused={
        **dict.fromkeys(("infra", "cloud", "region", "zone", "instance_type"), _POOLS),
        **dict.fromkeys(
            ("image_id", "docker_image"), "Jobs run on the node as it is: install in 'setup'."
        ),
        "ports": "Ports are not opened: leave it out.",
        "labels": "Write 'labels' at the top for the job's own, 'node_labels' here for where it runs.",
        **dict.fromkeys(
            ("autostop", "disk_tier", "network_tier"), "Pools are of the fleet: leave it out."
        ),
        "job_recovery": "Write 'retries' at the top; a preempted job always comes again.",
        "max_hourly_cost": "Write 'max_cost' at the top: dollars for the whole job.",
        "accelerator_args": "Leave it out.",
    },
)

# -- the job -----------------------------------------------------------------------------------------

CHECKPOINT = KeyTable(
    name="checkpoint",
    keys={
        "interval": FileKey(
            meaning="how often the job saves its work", read=duration_ms, schema=TIME
        ),
        "restart": FileKey(
            meaning="how long it takes to load it again", read=duration_ms, schema=TIME
        ),
        "signal": FileKey(
            meaning="the signal that asks the tasks to save and end; left out: SIGTERM",
            read=stop_signal,
            schema={"type": "string"},
        ),
    },
    meant={"every": "interval", "period": "interval", "restart_time": "restart"},
    refused={
        "dir": "Write the folder into 'envs', as in 'CHECKPOINT_DIR: ...', and use it in 'run'.",
        "path": "Write the folder into 'envs', as in 'CHECKPOINT_DIR: ...', and use it in 'run'.",
    },
)


def _checkpoint(value: Any) -> tuple[CheckpointPolicy, str | None]:
    said = read_mapping(value, CHECKPOINT)
    interval = said.get("interval")
    if interval == 0:
        fix = "Write more than 0, or leave it out."
        raise InvalidValue("is 0", fix, "out-of-range").inside("interval")
    checkpoint = CheckpointPolicy(interval_ms=interval, restart_ms=said.get("restart", 0))
    return checkpoint, said.get("signal")


def _array(value: Any) -> int:
    span = re.match(r"0-(\d{1,6})(%\d+)?\Z", value) if isinstance(value, str) else None
    if span:
        fix = f"Write how many members it has: {int(span[1]) + 1}. They are numbered from 0."
        raise InvalidValue(f"is {shown(value)}", fix, "wrong-type")
    count: int = whole(1, MOST_ARRAY)(value)
    return count


def _run(value: Any) -> str | tuple[str, ...]:
    if not isinstance(value, list):
        commands = script(value)
        if not commands.strip():
            raise InvalidValue("is empty", "Write the commands of the job.", "empty-text")
        return commands
    words = tuple(members(value, script, MOST_WORDS))
    if not words or not words[0].strip():
        raise InvalidValue("is empty", "Write the program first, then its arguments.", "empty-list")
    return words


def _depends_on(value: Any) -> tuple[str, ...]:
    found = members([value] if isinstance(value, str) else value, text, MOST_DEPENDENCIES)
    return tuple(dict.fromkeys(found))


def _label_name(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}", value):
        return value
    fix = "Use up to 63 letters, digits, '.', '_', '-' and '/', beginning with a letter or digit."
    raise InvalidValue(f"{shown(value)} is not a name of a label", fix, "bad-name", at_key=True)


def _label_value(value: Any) -> str:
    if value is None or value == "":
        return ""
    return text(str(value).lower() if isinstance(value, bool) else value)


def _labels(value: Any) -> dict[str, str]:
    return named(value, _label_name, _label_value, MOST_LABELS)


def _max_cost(value: Any) -> int:
    if isinstance(value, str):
        value = value.strip().lstrip("$")
        fix = "Write dollars as a number, for example 25.50."
        if not re.fullmatch(r"\d{1,12}(\.\d{1,6})?", value):
            raise InvalidValue(f"is {shown(value)}, not an amount of money", fix, "wrong-type")
        value = float(value)
    return in_units(value, USD_MICRO, "micro-dollar")


_IN_RESOURCES = {key: f"resources.{key}" for key in RESOURCES.keys if key not in ("gpu",)} | {
    alias: f"resources.{key}" for alias, key in RESOURCES.meant.items() if alias != "preemptible"
}

JOB = KeyTable(
    name="the job",
    keys={
        "name": FileKey(
            meaning="what the job is called; left out: job", read=name_text, schema=NAME
        ),
        "queue": FileKey(meaning="the queue in which it waits", read=text, schema=TEXT),
        "priority": FileKey(
            meaning="a priority class of the fleet; left out: normal", read=text, schema=TEXT
        ),
        "resources": FileKey(
            meaning="what each task needs, and where it may run",
            read=lambda value: read_mapping(value, RESOURCES),
            schema=as_schema(RESOURCES),
        ),
        "gpu": _GPU,
        "num_nodes": FileKey(
            meaning="how many tasks, all started together; left out: 1",
            read=whole(1, MOST_NODES),
            schema=_whole(1, MOST_NODES),
        ),
        "min_nodes": FileKey(
            meaning="the fewest tasks with which it may start: makes it elastic",
            read=whole(1, MOST_NODES),
            schema=_whole(1, MOST_NODES),
        ),
        "topology": FileKey(
            meaning="which tasks must or should be near each other",
            read=_topology,
            schema=as_schema(TOPOLOGY),
        ),
        "spread": FileKey(
            meaning="how far tasks must be apart: a level, or level and max_tasks",
            read=_spread,
            schema=_either(TEXT, as_schema(SPREAD)),
        ),
        "apart": FileKey(
            meaning="jobs with the same word here never share a node", read=text, schema=TEXT
        ),
        "workdir": FileKey(
            meaning="a folder that is sent along and becomes the working directory",
            read=workdir,
            schema=PATH,
        ),
        "file_mounts": FileKey(
            meaning="files or folders that are sent along, by where they go in the working directory",
            read=file_mounts,
            schema={"type": "object", "additionalProperties": PATH},
        ),
        "envs": FileKey(meaning="environment variables", read=envs, schema=VARIABLES),
        "secrets": FileKey(
            meaning="environment variables that are never shown and forgotten after the job",
            read=secrets,
            schema=VARIABLES,
        ),
        "setup": FileKey(
            meaning="commands that run once on each node before run", read=script, schema=SCRIPT
        ),
        "run": FileKey(
            meaning="the commands of each task; a list is one program and its arguments",
            read=_run,
            schema=_either({"type": "string", "minLength": 1}, _list_of({"type": "string"})),
        ),
        "max_hours": FileKey(
            meaning="the job is ended after so many hours; also 90 min",
            read=hours_ms,
            schema=_either({"type": "number", "exclusiveMinimum": 0}, TIME),
        ),
        "expected_hours": FileKey(
            meaning="how long it is expected to run; also 90 min",
            read=hours_ms,
            schema=_either({"type": "number", "exclusiveMinimum": 0}, TIME),
        ),
        "max_cost": FileKey(
            meaning="dollars that all its tries may cost together; then it is stopped",
            read=_max_cost,
            schema={"type": ["number", "string"], "minimum": 0},
        ),
        "deadline": FileKey(
            meaning="when it should be done: 2026-12-24T18:00:00Z, or a time from now, 6 h",
            read=deadline,
            schema={"type": "string", "minLength": 1},
        ),
        "preemptible": FileKey(
            meaning="whether it may be stopped for others and run again; left out: true",
            read=flag,
            schema=FLAG,
        ),
        "checkpoint": FileKey(
            meaning="how the job saves its work",
            read=_checkpoint,
            schema=as_schema(CHECKPOINT),
        ),
        "grace": FileKey(
            meaning="time between the request to stop and the end: seconds, or 2 min; left out: 30",
            read=grace_seconds,
            schema=_either(_whole(0, 3600), TIME),
        ),
        "retries": FileKey(
            meaning="how often it is tried again after a failure; left out: 0",
            read=whole(0, MOST_RETRIES),
            schema=_whole(0, MOST_RETRIES),
        ),
        "depends_on": FileKey(
            meaning="ids of jobs that must succeed first",
            read=_depends_on,
            schema=_either(TEXT, _list_of(TEXT)),
        ),
        "array": FileKey(
            meaning="how many copies, numbered from 0", read=_array, schema=_whole(1, MOST_ARRAY)
        ),
        "labels": FileKey(
            meaning="words of your own to find it by",
            read=_labels,
            schema={
                "type": "object",
                "additionalProperties": {"type": ["string", "integer", "boolean"]},
            },
        ),
    },
    meant={
        **_IN_RESOURCES,
        **dict.fromkeys(("env", "environment", "environment_variables"), "envs"),
        **dict.fromkeys(("command", "cmd", "script", "entrypoint", "exec"), "run"),
        **dict.fromkeys(("nodes", "replicas", "num_tasks", "tasks"), "num_nodes"),
        **dict.fromkeys(("time", "timeout", "walltime", "time_limit", "max_time"), "max_hours"),
        **dict.fromkeys(("duration", "hours", "runtime"), "expected_hours"),
        **dict.fromkeys(("budget", "cost", "max_price"), "max_cost"),
        **dict.fromkeys(("dependencies", "dependency", "after", "needs"), "depends_on"),
        **dict.fromkeys(("partition", "tenant", "team", "project"), "queue"),
        **dict.fromkeys(("priority_class", "qos"), "priority"),
        **dict.fromkeys(("tags", "annotations", "metadata"), "labels"),
        **dict.fromkeys(("retry", "max_retries", "max_restarts"), "retries"),
        **dict.fromkeys(("mounts", "files"), "file_mounts"),
        **dict.fromkeys(("cwd", "working_dir", "work_dir"), "workdir"),
        **dict.fromkeys(("secret",), "secrets"),
        **dict.fromkeys(("grace_period", "grace_seconds"), "grace"),
        **dict.fromkeys(("min_replicas",), "min_nodes"),
        **dict.fromkeys(("checkpoints", "checkpointing"), "checkpoint"),
    },
    refused={
        "service": "Bursar runs jobs, not services: leave it out.",
        "config": "Settings are of the fleet: leave it out.",
        "volumes": "Name files in 'file_mounts', or use a path that the nodes share in 'run'.",
        **dict.fromkeys(("inputs", "outputs"), "Name files in 'file_mounts'."),
        **dict.fromkeys(("event_callback", "experimental", "pool"), "Leave it out."),
        "group": "One job has one group of tasks here: submit the others as jobs of their own.",
        "groups": "One job has one group of tasks here: submit the others as jobs of their own.",
    },
)
TABLES = (JOB, RESOURCES, ALTERNATIVE, CHECKPOINT, TOPOLOGY, LAYER, SPREAD)

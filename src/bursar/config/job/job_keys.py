"""Every key of the job file: its meaning, reader and JSON Schema, in tables.

``docs/job-file.md`` is compared with these tables by a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bursar.config.job import resources as res
from bursar.config.job.environment import envs, secrets
from bursar.config.job.file_mounts import file_mounts, source
from bursar.config.job.times import deadline, grace_seconds, stop_signal
from bursar.config.yaml.key_tables import (
    BOOLEAN,
    DIALECT,
    FileKey,
    KeyTable,
    Schema,
    ValueFormat,
    either,
    read_mapping,
)
from bursar.config.yaml.value_readers import (
    InvalidValue,
    duration_ms,
    hours_ms,
    in_units,
    members,
    name_text,
    named,
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

AMOUNT: Schema = {"type": ["number", "string"], "minimum": 0}
PATH: Schema = {"type": "string", "minLength": 1}
VARIABLES: Schema = {
    "type": "object",
    "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"},
    "additionalProperties": {"type": ["string", "integer", "number", "boolean"]},
}
TEXT = ValueFormat(text, {"type": ["string", "integer"], "minLength": 1, "maxLength": 253})
NAME = ValueFormat(
    name_text, {"type": ["string", "integer"], "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"}
)
SCRIPT = ValueFormat(script, {"type": "string"})
TIME = ValueFormat(
    duration_ms, {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|min|h|d|w)"}
)
HOURS = ValueFormat(hours_ms, either({"type": "number", "exclusiveMinimum": 0}, TIME.schema))
MEMORY = ValueFormat(res.memory_mib, AMOUNT)


def _whole(least: int, most: int) -> ValueFormat:
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return ValueFormat(whole(least, most), schema)


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def as_schema(table: KeyTable) -> dict[str, Any]:
    """The JSON Schema of one mapping; a null value counts as a missing key."""
    properties = {
        name: {"description": key.meaning, "anyOf": [key.format.schema, {"type": "null"}]}
        for name, key in table.keys.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _mapping(table: KeyTable, build: Callable[..., Any] = dict) -> ValueFormat:
    """A mapping whose keys are the arguments of ``build``."""
    return ValueFormat(lambda value: build(**read_mapping(value, table)), as_schema(table))


def _several(member: ValueFormat, most: int) -> ValueFormat:
    """A list of at most ``most`` values, read as a tuple."""
    return ValueFormat(
        lambda value: tuple(members(value, member.read, most)), _list_of(member.schema)
    )


def job_schema() -> dict[str, Any]:
    """The JSON Schema of a job file."""
    return {
        "$schema": DIALECT,
        "title": "Bursar job",
        "description": "A job: what to run, what each task needs, and where it may run.",
        **as_schema(JOB),
        "required": ["run"],
    }


# -- where tasks run -----------------------------------------------------------------------------------

LAYER = KeyTable(
    name="a layer",
    keys={
        "level": FileKey("the topology level", TEXT),
        "size": FileKey(
            "number of tasks that share one domain of that level", _whole(1, MOST_NODES)
        ),
    },
    required=("level", "size"),
)

TOPOLOGY = KeyTable(
    name="topology",
    keys={
        "required": FileKey("all tasks must run in one domain of this level", TEXT),
        "preferred": FileKey("all tasks should run in one domain of this level", TEXT),
        "layers": FileKey(
            "groups of tasks that must share a domain, widest level first",
            _several(_mapping(LAYER, SliceLayer), 16),
        ),
    },
)
SPREAD = KeyTable(
    name="spread",
    keys={
        "level": FileKey("the topology level; node is the narrowest", TEXT),
        "max_tasks": FileKey(
            "the most tasks in one domain of that level; default: 1", _whole(1, MOST_NODES)
        ),
    },
)


def _spread(value: Any) -> Spread:
    written = {"level": text(value)} if isinstance(value, str) else read_mapping(value, SPREAD)
    return Spread(**written)


# -- resources ---------------------------------------------------------------------------------------

_COUNT = _whole(1, 1024).schema
_MODEL_COUNT: Schema = {"type": "object", "additionalProperties": _COUNT, "minProperties": 1}
_ACCELERATORS = FileKey(
    "GPUs of each task: model and count; a list is in order of preference, a mapping is not",
    ValueFormat(
        res.accelerators,
        either(TEXT.schema, _COUNT, _MODEL_COUNT, _list_of(either(TEXT.schema, _MODEL_COUNT))),
    ),
)
_USE_SPOT = FileKey(
    "true: only spot nodes; false: no spot nodes; allowed: wherever the expected cost is lowest",
    ValueFormat(res.spot_markets, either(BOOLEAN.schema, {"const": res.ALLOWED})),
)
_MARKETS = FileKey(
    "allowed markets in order of preference; replaces use_spot",
    ValueFormat(res.markets, _list_of({"enum": [str(one.value) for one in Market]})),
)
_ONLY_OUTSIDE = "It applies to all alternatives: write it once, outside the list."
_GPU = FileKey(
    "a share of one GPU for each task: 'mig 1g.10gb', 'mps 25%' or 'mps 25% 8 GiB'",
    ValueFormat(res.gpu_share, {"type": "string", "pattern": "^[Mm][IiPp][GgSs][ :]"}),
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
        "Bursar chooses among the pools of its fleet: remove it, or write node_labels outside.",
    ),
)
_ALTERNATIVES = _several(_mapping(ALTERNATIVE), res.MOST_ALTERNATIVES)
_POOLS = "Bursar chooses among the pools of its fleet: remove it, or write 'node_labels'."
RESOURCES = KeyTable(
    name="resources",
    keys={
        "accelerators": _ACCELERATORS,
        "gpu": _GPU,
        "gpu_memory": FileKey("minimum memory of each GPU in GiB", MEMORY),
        "cpus": FileKey("CPUs of each task: 4, 0.5 or 4+", ValueFormat(res.cpu_milli, AMOUNT)),
        "memory": FileKey(
            "memory of each task in GiB, such as 32 or 32+, or with a unit: 512 MiB", MEMORY
        ),
        "disk_size": FileKey("local disk of each task in GiB", MEMORY),
        "use_spot": _USE_SPOT,
        "markets": _MARKETS,
        "anchors_percent": FileKey(
            "percentage of the tasks that never run on spot, rounded up; needs use_spot: allowed",
            _whole(1, 100),
        ),
        "any_of": FileKey("alternatives; the cheapest is used", _ALTERNATIVES),
        "ordered": FileKey("alternatives; the first that fits is used", _ALTERNATIVES),
        "node_labels": FileKey(
            "labels that every node of the job must have",
            ValueFormat(
                res.node_labels,
                {"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
            ),
        ),
        "tolerations": FileKey(
            "taints that the job tolerates: a key, or key=value",
            ValueFormat(res.tolerations, either(TEXT.schema, _list_of(TEXT.schema))),
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
        "ports": "Bursar opens no ports: remove it.",
        "labels": "Write 'labels' at the top to label the job, 'node_labels' here to choose nodes.",
        **dict.fromkeys(
            ("autostop", "disk_tier", "network_tier"),
            "The fleet file describes the pools: remove it.",
        ),
        "job_recovery": "Write 'retries' at the top; a preempted job is always requeued.",
        "max_hourly_cost": "Write 'max_cost' at the top: dollars for the whole job.",
        "accelerator_args": "It is not supported: remove it.",
    },
)

# -- the job -----------------------------------------------------------------------------------------

CHECKPOINT = KeyTable(
    name="checkpoint",
    keys={
        "interval": FileKey("time between two checkpoints", TIME),
        "restart": FileKey("how long loading a checkpoint takes", TIME),
        "signal": FileKey(
            "the signal that asks the tasks to save and exit; default: SIGTERM",
            ValueFormat(stop_signal, {"type": "string"}),
        ),
    },
    meant={"every": "interval", "period": "interval", "restart_time": "restart"},
    refused={
        "dir": "Write the folder into 'envs', as in 'CHECKPOINT_DIR: ...', and use it in 'run'.",
        "path": "Write the folder into 'envs', as in 'CHECKPOINT_DIR: ...', and use it in 'run'.",
    },
)


def _checkpoint(value: Any) -> tuple[CheckpointPolicy, str | None]:
    values = read_mapping(value, CHECKPOINT)
    interval = values.get("interval")
    if interval == 0:
        fix = "Write more than 0, or remove it."
        raise InvalidValue("is 0", fix, "out-of-range").inside("interval")
    checkpoint = CheckpointPolicy(interval_ms=interval, restart_ms=values.get("restart", 0))
    return checkpoint, values.get("signal")


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
    job_ids = members([value] if isinstance(value, str) else value, text, MOST_DEPENDENCIES)
    return tuple(dict.fromkeys(job_ids))


def _label_name(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}", value):
        return value
    fix = "Use up to 63 letters, digits, '.', '_', '-' and '/', beginning with a letter or digit."
    raise InvalidValue(f"{shown(value)} is not a valid label name", fix, "bad-name", at_key=True)


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
        "name": FileKey("the job's name; default: job", NAME),
        "queue": FileKey("the queue to submit to; default: your only queue", TEXT),
        "priority": FileKey("a priority class of the fleet; default: normal", TEXT),
        "resources": FileKey(
            "what each task needs, and where it may run",
            ValueFormat(lambda value: read_mapping(value, RESOURCES), as_schema(RESOURCES)),
        ),
        "gpu": _GPU,
        "num_nodes": FileKey(
            "number of tasks, all started together; default: 1", _whole(1, MOST_NODES)
        ),
        "min_nodes": FileKey(
            "minimum number of tasks to start with; makes the job elastic", _whole(1, MOST_NODES)
        ),
        "topology": FileKey(
            "which tasks must or should run close together", _mapping(TOPOLOGY, Topology)
        ),
        "spread": FileKey(
            "keeps tasks apart: a topology level, or level and max_tasks",
            ValueFormat(_spread, either(TEXT.schema, as_schema(SPREAD))),
        ),
        "apart": FileKey("jobs with the same value never share a node", TEXT),
        "workdir": FileKey(
            "a local folder that is uploaded and becomes the working directory",
            ValueFormat(source, PATH),
        ),
        "file_mounts": FileKey(
            "local files or folders to upload, by their path in the working directory",
            ValueFormat(file_mounts, {"type": "object", "additionalProperties": PATH}),
        ),
        "envs": FileKey("environment variables", ValueFormat(envs, VARIABLES)),
        "secrets": FileKey(
            "environment variables that are never shown or logged, and are deleted after the job",
            ValueFormat(secrets, VARIABLES),
        ),
        "setup": FileKey("commands that run once on each node before run", SCRIPT),
        "run": FileKey(
            "the commands of each task; a list is one program and its arguments",
            ValueFormat(
                _run, either({"type": "string", "minLength": 1}, _list_of({"type": "string"}))
            ),
        ),
        "max_hours": FileKey("the job is stopped after this many hours; also 90 min", HOURS),
        "expected_hours": FileKey("expected run time in hours; also 90 min", HOURS),
        "max_cost": FileKey(
            "dollars that all its attempts may cost together; the job is then stopped",
            ValueFormat(_max_cost, {"type": ["number", "string"], "minimum": 0}),
        ),
        "deadline": FileKey(
            "when it should be finished: 2026-12-24T18:00:00Z, or after submission: 6 h",
            ValueFormat(deadline, {"type": "string", "minLength": 1}),
        ),
        "preemptible": FileKey(
            "whether it may be stopped for other jobs and requeued; default: true", BOOLEAN
        ),
        "checkpoint": FileKey(
            "how often the job saves its work, and how it is asked to",
            ValueFormat(_checkpoint, as_schema(CHECKPOINT)),
        ),
        "grace": FileKey(
            "time between stop signal and kill: seconds, or 2 min; default: 30",
            ValueFormat(grace_seconds, either(_whole(0, 3600).schema, TIME.schema)),
        ),
        "retries": FileKey(
            "number of retries after a failure; default: 0", _whole(0, MOST_RETRIES)
        ),
        "depends_on": FileKey(
            "ids of jobs that must succeed first",
            ValueFormat(_depends_on, either(TEXT.schema, _list_of(TEXT.schema))),
        ),
        "array": FileKey(
            "number of copies, numbered from 0", ValueFormat(_array, _whole(1, MOST_ARRAY).schema)
        ),
        "labels": FileKey(
            "your own labels, to find the job by",
            ValueFormat(
                _labels,
                {
                    "type": "object",
                    "additionalProperties": {"type": ["string", "integer", "boolean"]},
                },
            ),
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
        "service": "Bursar runs jobs, not services: remove it.",
        "config": "Settings are in the fleet file: remove it.",
        "volumes": "Name files in 'file_mounts', or use a path that the nodes share in 'run'.",
        **dict.fromkeys(("inputs", "outputs"), "Name files in 'file_mounts'."),
        **dict.fromkeys(
            ("event_callback", "experimental", "pool"), "It is not supported: remove it."
        ),
        "group": "A job has one group of identical tasks: submit one job for each group.",
        "groups": "A job has one group of identical tasks: submit one job for each group.",
    },
)
TABLES = (JOB, RESOURCES, ALTERNATIVE, CHECKPOINT, TOPOLOGY, LAYER, SPREAD)

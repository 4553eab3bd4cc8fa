"""Reads Kueue's Workload objects, exported as JSON.

    kubectl get workloads -A -o json > workloads.json              # a list
    kubectl get workloads -A -w -o json | jq -c . > workloads.jsonl  # one object a line, as they change

Of several versions of an object the last counts. A job runs from its admission to its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bursar.simulate.traces.fields import (
    RowProblem,
    elapsed_ms,
    parse_count,
    parse_outcome,
    parse_time,
)
from bursar.simulate.traces.gpu_names import gpu_model
from bursar.simulate.traces.input_files import TraceText
from bursar.simulate.traces.task_roles import TaskRole, merge_notes, merge_roles
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

NAME = "kueue"
TITLE = "Kueue Workload objects, JSON lines or a list"

_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_SLICE_PREFIX = "nvidia.com/mig-"
_MODEL_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")

# Kubernetes quantities: ``500m`` of a core, ``64Gi`` of memory.
_QUANTITY = re.compile(r"(\d+(?:\.\d*)?(?:[eE]\d+)?)(m|[kKMGTPE]i?|)")
_FACTORS = {"": 1.0, "m": 0.001, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_FACTORS |= {"E": 1e18} | {
    f"{unit}i": 1_024.0**power for power, unit in enumerate("KMGTPE", start=1)
}
_BYTES_PER_MIB = 1_024**2

Object = dict[str, Any]


def recognises(text: TraceText) -> bool:
    """Whether the file is JSON with Workload objects."""
    head = "".join(text.head[:40])
    return head.lstrip().startswith("{") and (
        '"Workload"' in head or '"podSets"' in head or "kueue.x-k8s.io" in head
    )


def read(text: TraceText, builder: TraceBuilder) -> None:
    """Adds a job for each Workload whose last version is finished."""
    last: dict[str, tuple[int, Object]] = {}
    for line, entry in _objects(text, builder):
        workload = entry.get("object", entry)
        if workload.get("kind", "Workload") != "Workload":
            builder.count("objects skipped that are not Workloads")
            continue
        meta = workload.get("metadata") or {}
        last[meta.get("uid") or f"{meta.get('namespace')}/{meta.get('name')}"] = line, workload
    for line, workload in last.values():
        try:
            job = _job(workload, builder)
        except RowProblem as problem:
            builder.reject(line, str(problem))
        except (AttributeError, TypeError) as error:
            builder.reject(line, f"does not have the structure of a Workload ({error})")
        else:
            if job is not None:
                builder.add(line, job)


def _objects(text: TraceText, builder: TraceBuilder) -> Iterator[tuple[int, Object]]:
    """Yields one object per line, or those of one JSON document over many lines."""
    if text.head and text.head[0].strip() in ("{", "["):
        yield from _document_objects(text, builder)
        return
    for line, content in enumerate(text.lines, start=1):
        if not content.strip():
            continue
        try:
            value = json.loads(content)
        except ValueError as problem:
            builder.reject(line, f"is not JSON ({problem})")
            continue
        if isinstance(value, dict):
            for one in value["items"] if isinstance(value.get("items"), list) else (value,):
                yield line, one
        else:
            builder.reject(line, "is not a JSON object")


def _document_objects(text: TraceText, builder: TraceBuilder) -> Iterator[tuple[int, Object]]:
    try:
        document = json.loads("".join(text.lines))
    except ValueError as problem:
        builder.reject(1, f"is not JSON ({problem})")
        return
    items = document.get("items", [document]) if isinstance(document, dict) else document
    yield from enumerate(items, start=1)


def _job(workload: Object, builder: TraceBuilder) -> TraceJob | None:
    meta, spec, status = (workload.get(key) or {} for key in ("metadata", "spec", "status"))
    conditions = {
        one["type"]: one for one in status.get("conditions") or () if one.get("status") == "True"
    }
    finished, admitted = conditions.get("Finished"), conditions.get("Admitted")
    if finished is None or admitted is None:
        builder.count("Workloads left out that had not finished")
        return None
    roles = [_role(pods, builder) for pods in spec.get("podSets") or ()]
    if not roles:
        raise RowProblem("has no podSets")
    for note in merge_notes(roles):
        builder.count(note)
    role = merge_roles(roles)
    limit = spec.get("maximumExecutionTimeSeconds")
    return TraceJob(
        job_id=f"{meta.get('namespace', 'default')}/{meta.get('name', '')}",
        submitted_ms=parse_time(str(meta.get("creationTimestamp", "")), "creationTimestamp"),
        run_ms=elapsed_ms(
            parse_time(str(admitted.get("lastTransitionTime")), "Admitted"),
            parse_time(str(finished.get("lastTransitionTime")), "Finished"),
            "Finished",
        ),
        team=(status.get("admission") or {}).get("clusterQueue") or spec.get("queueName") or "all",
        user=meta.get("namespace", ""),
        tasks=role.tasks,
        gpus=role.gpus,
        gpu_models=role.gpu_models,
        cpu_milli=role.cpu_milli,
        memory_mib=role.memory_mib,
        expected_ms=None if limit is None else int(limit) * 1_000,
        priority=int(spec.get("priority") or 0),
        outcome=parse_outcome(str(finished.get("reason", ""))),
    )


def _role(pods: Object, builder: TraceBuilder) -> TaskRole:
    pod = (pods.get("template") or {}).get("spec") or {}
    gpus = cpu = memory = 0
    for container in pod.get("containers") or ():
        resources = container.get("resources") or {}
        requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        gpus += sum(
            parse_count(str(requests[name]), name) for name in _GPU_RESOURCES if name in requests
        )
        cpu += cpu_milli(str(requests.get("cpu", "0")))
        memory += memory_mib(str(requests.get("memory", "0")))
        if any(name.startswith(_SLICE_PREFIX) for name in requests):
            builder.count("containers that request MIG slices, which are not counted as GPUs")
    labels = pod.get("nodeSelector") or {}
    models = tuple(gpu_model(labels[label]) for label in _MODEL_LABELS if label in labels)
    return TaskRole(
        tasks=parse_count(str(pods.get("count", 1)), "count of podSet", 1),
        gpu_milli=gpus * 1_000,
        gpu_models=models,
        cpu_milli=cpu,
        memory_mib=memory,
    )


def cpu_milli(text: str) -> int:
    """Parses a Kubernetes quantity into thousandths of a core."""
    return round(_amount(text, "cpu") * 1_000)


def memory_mib(text: str) -> int:
    """Parses a Kubernetes quantity into MiB, rounded to the nearest."""
    return round(_amount(text, "memory") / _BYTES_PER_MIB)


def _amount(text: str, column: str) -> float:
    parts = _QUANTITY.fullmatch(text)
    if parts is None or parts[2] not in _FACTORS:
        raise RowProblem(f"{column} is {text!r}, not a quantity like 500m or 64Gi")
    return float(parts[1]) * _FACTORS[parts[2]]

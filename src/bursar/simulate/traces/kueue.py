"""Kueue's Workload objects, exported as JSON: what a Kubernetes cluster remembers of its queue.

    kubectl get workloads -A -o json > workloads.json              # a list
    kubectl get workloads -A -w -o json | jq -c . > workloads.jsonl  # one object a line, as they change

Of an object that appears several times the last is taken. A run is from admission to the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bursar.simulate.traces.fields import RowProblem, between, moment, outcome, whole
from bursar.simulate.traces.gpu_names import gpu_model
from bursar.simulate.traces.input_files import TraceText
from bursar.simulate.traces.task_roles import TaskRole, as_one, remarks_on
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
    """JSON that speaks of Workloads."""
    head = "".join(text.head[:40])
    return head.lstrip().startswith("{") and (
        '"Workload"' in head or '"podSets"' in head or "kueue.x-k8s.io" in head
    )


def read(text: TraceText, draft: TraceBuilder) -> None:
    """The last state of each Workload, as a job if it finished."""
    last: dict[str, tuple[int, Object]] = {}
    for line, found in _objects(text, draft):
        workload = found.get("object", found)
        if workload.get("kind", "Workload") != "Workload":
            draft.count("objects that are no Workloads skipped")
            continue
        meta = workload.get("metadata") or {}
        last[meta.get("uid") or f"{meta.get('namespace')}/{meta.get('name')}"] = line, workload
    for line, workload in last.values():
        try:
            job = _job(workload, draft)
        except RowProblem as problem:
            draft.reject(line, str(problem))
        except (AttributeError, TypeError) as odd:
            draft.reject(line, f"is not shaped like a Workload ({odd})")
        else:
            if job is not None:
                draft.add(line, job)


def _objects(text: TraceText, draft: TraceBuilder) -> Iterator[tuple[int, Object]]:
    """Objects one a line; or, if the first line is only the beginning of one, a whole list."""
    if text.head and text.head[0].strip() in ("{", "["):
        yield from _listed(text, draft)
        return
    for line, content in enumerate(text.lines, start=1):
        if not content.strip():
            continue
        try:
            found = json.loads(content)
        except ValueError as problem:
            draft.reject(line, f"is not JSON ({problem})")
            continue
        if isinstance(found, dict):
            for one in found["items"] if isinstance(found.get("items"), list) else (found,):
                yield line, one
        else:
            draft.reject(line, "is not a JSON object")


def _listed(text: TraceText, draft: TraceBuilder) -> Iterator[tuple[int, Object]]:
    try:
        whole_file = json.loads("".join(text.lines))
    except ValueError as problem:
        draft.reject(1, f"is not JSON ({problem})")
        return
    items = whole_file.get("items", [whole_file]) if isinstance(whole_file, dict) else whole_file
    yield from enumerate(items, start=1)


def _job(workload: Object, draft: TraceBuilder) -> TraceJob | None:
    meta, spec, status = (workload.get(part) or {} for part in ("metadata", "spec", "status"))
    conditions = {
        one["type"]: one for one in status.get("conditions") or () if one.get("status") == "True"
    }
    finished, admitted = conditions.get("Finished"), conditions.get("Admitted")
    if finished is None or admitted is None:
        draft.count("Workloads that had not run to their end, left out")
        return None
    roles = [_role(pods, draft) for pods in spec.get("podSets") or ()]
    if not roles:
        raise RowProblem("has no podSets")
    for remark in remarks_on(roles):
        draft.count(remark)
    role = as_one(roles)
    limit = spec.get("maximumExecutionTimeSeconds")
    return TraceJob(
        job_id=f"{meta.get('namespace', 'default')}/{meta.get('name', '')}",
        submitted_ms=moment(str(meta.get("creationTimestamp", "")), "creationTimestamp"),
        run_ms=between(
            moment(str(admitted.get("lastTransitionTime")), "Admitted"),
            moment(str(finished.get("lastTransitionTime")), "Finished"),
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
        outcome=outcome(str(finished.get("reason", ""))),
    )


def _role(pods: Object, draft: TraceBuilder) -> TaskRole:
    pod = (pods.get("template") or {}).get("spec") or {}
    gpus = cpu = memory = 0
    for container in pod.get("containers") or ():
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        gpus += sum(whole(str(asked[name]), name) for name in _GPU_RESOURCES if name in asked)
        cpu += cpu_milli(str(asked.get("cpu", "0")))
        memory += memory_mib(str(asked.get("memory", "0")))
        if any(name.startswith(_SLICE_PREFIX) for name in asked):
            draft.count("containers that ask for MIG slices, which are not counted as GPUs")
    labels = pod.get("nodeSelector") or {}
    models = tuple(gpu_model(labels[label]) for label in _MODEL_LABELS if label in labels)
    return TaskRole(
        tasks=whole(str(pods.get("count", 1)), "count of podSet", 1),
        gpu_milli=gpus * 1_000,
        gpu_models=models,
        cpu_milli=cpu,
        memory_mib=memory,
    )


def cpu_milli(text: str) -> int:
    """Thousandths of a core."""
    return round(_amount(text, "cpu") * 1_000)


def memory_mib(text: str) -> int:
    """MiB, rounded to the nearest."""
    return round(_amount(text, "memory") / _BYTES_PER_MIB)


def _amount(text: str, column: str) -> float:
    parts = _QUANTITY.fullmatch(text)
    if parts is None or parts[2] not in _FACTORS:
        raise RowProblem(f"{column} is {text!r}, not a quantity like 500m or 64Gi")
    return float(parts[1]) * _FACTORS[parts[2]]

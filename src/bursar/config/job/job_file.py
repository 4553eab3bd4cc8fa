"""The job file, in YAML or JSON, read into a job specification.

Both forms use the tables of ``job_keys.py``. Errors are located by line and column in a text, and by
the path of keys in a request.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bursar.config.job.file_mounts import LocalFile, MountSource
from bursar.config.job.job_keys import JOB
from bursar.config.job.resources import TaskRequest, task_request
from bursar.config.yaml.key_tables import read_mapping
from bursar.config.yaml.value_readers import InvalidValue, subject_of
from bursar.config.yaml.yaml_text import MOST_JOB_CHARACTERS, Path, read_yaml
from bursar.model.jobs.job import CheckpointPolicy, Constraints, JobSpec, TaskGroup
from bursar.model.jobs.run_spec import Mount, RunSpec
from bursar.model.units import SECOND_MS

DEFAULT_NAME = "job"
NO_CHECKPOINT = (CheckpointPolicy(), None)
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefaults:
    """Defaults for what a document may leave out: the queue, the current time, the user."""

    default_queue: str | None = None
    now_ms: int | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDocument:
    """What a job file describes.

    ``document`` is the job as JSON, with the names of its secrets but not their values.
    ``local_files`` must be uploaded and replaced by their hashes before the job can run.
    """

    spec: JobSpec
    recipe: RunSpec
    labels: Mapping[str, str] = field(default_factory=dict)
    document: str = ""
    local_files: tuple[LocalFile, ...] = ()


_NO_DEFAULTS = JobDefaults()


def parse_job(text: str, file: str, defaults: JobDefaults = _NO_DEFAULTS) -> JobDocument:
    """Read YAML text; errors have file, line and column."""
    document = read_yaml(text, file, MOST_JOB_CHARACTERS)
    try:
        return _read(_not_empty(document.value), defaults)
    except InvalidValue as error:
        location = document.location(error.path, at_key=error.at_key)
        raise error.as_user_error(location, subject_of(error.path, "the job")) from None


def read_job(plain: Mapping[str, Any], defaults: JobDefaults = _NO_DEFAULTS) -> JobDocument:
    """Read parsed JSON; errors have the path of keys."""
    try:
        return _read(plain, defaults)
    except InvalidValue as error:
        subject = subject_of(error.path, "the job")
        raise error.as_user_error(_dotted(error.path), subject) from None


def _dotted(path: Path) -> str:
    """A path in the notation of requests: ``resources.any_of[1].use_spot``."""
    text = "".join(f"[{one}]" if isinstance(one, int) else f".{one[:60]}" for one in path)
    return text.lstrip(".") or "job"


def _not_empty(value: Any) -> Any:
    if value is None:
        raise InvalidValue("is empty", "Write at least 'run: echo hello'.", "missing-key")
    return value


def _read(plain: Any, defaults: JobDefaults) -> JobDocument:
    values = read_mapping(plain, JOB)
    if "run" not in values:
        fix = "Add 'run' with the commands, for example 'run: python train.py'."
        raise InvalidValue("lacks 'run'", fix, "missing-key")
    labels = values.get("labels", NOTHING)
    spec = _spec(values, defaults)
    recipe, local_files = _recipe(values)
    return JobDocument(
        spec=spec,
        recipe=recipe,
        labels=labels,
        document=_document(plain, spec, recipe, labels),
        local_files=local_files,
    )


# -- the specification, for the scheduler ----------------------------------------------------------


def _spec(values: dict[str, Any], defaults: JobDefaults) -> JobSpec:
    queue = values.get("queue") or defaults.default_queue
    if queue is None:
        fix = "Add 'queue: NAME'; 'bursar quota' lists the queues you may use."
        raise InvalidValue("lacks 'queue'", fix, "missing-key")
    resources = values.get("resources", {})
    task = _task_request(values, resources)
    expected_ms, most_ms = values.get("expected_hours"), values.get("max_hours")
    if expected_ms is not None and most_ms is not None and expected_ms > most_ms:
        fix = "Lower expected_hours or raise max_hours."
        raise InvalidValue("is more than max_hours", fix, "expected-over-max").inside(
            "expected_hours"
        )
    name = values.get("name", DEFAULT_NAME)
    return JobSpec(
        name=name,
        queue=queue,
        similarity_keys=(queue, defaults.user, name) if defaults.user is not None else (),
        groups=(_group(values, resources, task),),
        priority_class=values.get("priority", "normal"),
        preemptible=values.get("preemptible", True),
        expected_run_ms=expected_ms,
        max_run_ms=most_ms,
        deadline_ms=_deadline_ms(values, defaults),
        constraints=_constraints(values, resources, task),
        checkpoint=values.get("checkpoint", NO_CHECKPOINT)[0],
        depends_on=values.get("depends_on", ()),
        retries=values.get("retries", 0),
        array_size=values.get("array", 1),
        max_cost_micro_usd=values.get("max_cost"),
    )


def _task_request(values: dict[str, Any], resources: dict[str, Any]) -> TaskRequest:
    if "gpu" in values and "gpu" in resources:
        fix = "Keep one of them."
        raise InvalidValue("is also in resources", fix, "two-choices").inside("gpu")
    try:
        return task_request(resources, values.get("gpu") or resources.get("gpu"))
    except InvalidValue as error:
        raise error.inside("resources") from None


def _group(values: dict[str, Any], resources: dict[str, Any], task: TaskRequest) -> TaskGroup:
    count, least = values.get("num_nodes", 1), values.get("min_nodes")
    if least is not None and least > count:
        fix = f"Write 1 to {count:,}, or raise num_nodes."
        problem = f"is {least:,}, more than num_nodes, which is {count:,}"
        raise InvalidValue(problem, fix, "min-over-count").inside("min_nodes")
    return TaskGroup(
        count=count,
        min_count=least,
        gpu=task.gpu,
        cpu_milli=resources.get("cpus", 0),
        memory_mib=resources.get("memory", 0),
        disk_mib=resources.get("disk_size", 0),
    )


def _constraints(
    values: dict[str, Any], resources: dict[str, Any], task: TaskRequest
) -> Constraints:
    return Constraints(
        node_labels=resources.get("node_labels", ()),
        tolerations=resources.get("tolerations", ()),
        topology=values.get("topology"),
        spread=values.get("spread"),
        apart=values.get("apart"),
        markets=task.markets,
        choose_by=task.choose_by,
        anchors_percent=resources.get("anchors_percent", 0),
    )


def _deadline_ms(values: dict[str, Any], defaults: JobDefaults) -> int | None:
    if "deadline" not in values:
        return None
    now_ms = round(time.time() * SECOND_MS) if defaults.now_ms is None else defaults.now_ms
    deadline_ms: int = values["deadline"](now_ms)
    return deadline_ms


# -- the commands, for the engine ----------------------------------------------------------


def _recipe(values: dict[str, Any]) -> tuple[RunSpec, tuple[LocalFile, ...]]:
    commands = values["run"]
    argv = commands if isinstance(commands, tuple) else ()
    if argv and "setup" in values:
        fix = "Write 'run' as one text, or remove 'setup'."
        raise InvalidValue(
            "is given together with a 'run' that is a list", fix, "two-choices"
        ).inside("setup")
    envs, secrets = values.get("envs", NOTHING), values.get("secrets", NOTHING)
    for name in secrets:
        if name in envs:
            fix = "Keep it in secrets only."
            raise InvalidValue("is also in envs", fix, "duplicate-key").inside("secrets", name)
    workdir: MountSource | None = values.get("workdir")
    mounts: dict[str, MountSource] = values.get("file_mounts", {})
    recipe = RunSpec(
        run="" if argv else commands,
        setup=values.get("setup", ""),
        argv=argv,
        envs=envs,
        secrets=secrets,
        workdir=workdir.bundle if workdir else None,
        mounts=tuple(Mount(target=t, bundle=s.bundle) for t, s in mounts.items() if s.bundle),
        grace_seconds=values.get("grace", 30),
        stop_signal=values.get("checkpoint", NO_CHECKPOINT)[1] or "SIGTERM",
    )
    return recipe, _local_files(workdir, mounts)


def _local_files(
    workdir: MountSource | None, mounts: dict[str, MountSource]
) -> tuple[LocalFile, ...]:
    files = [LocalFile(path=workdir.path)] if workdir and workdir.path else []
    files += [LocalFile(path=s.path, target=target) for target, s in mounts.items() if s.path]
    return tuple(files)


# -- the document --------------------------------------------------------------------------------------


def _document(
    plain: Mapping[str, Any], spec: JobSpec, recipe: RunSpec, labels: Mapping[str, str]
) -> str:
    """The document as JSON, with texts as they were read and without secret values."""
    stored = {key: value for key, value in plain.items() if value is not None}
    stored["queue"] = spec.queue
    if recipe.envs:
        stored["envs"] = recipe.envs
    if labels:
        stored["labels"] = labels
    if recipe.secrets:
        stored["secrets"] = dict.fromkeys(recipe.secrets)
    return _WRITE(stored)


_WRITE = json.JSONEncoder(ensure_ascii=False, default=float).encode
"""Decimals, the only values that JSON does not know, are written as numbers."""

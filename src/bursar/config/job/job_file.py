"""A job as its user writes it, in YAML or as JSON, and what it means.

Both are read by the same rows of ``job_keys.py``. Only where a mistake stands is said differently: by
line and column in a text, by the path of keys in a request.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from bursar.config.job.file_mounts import LocalFile, MountSource
from bursar.config.job.job_keys import JOB
from bursar.config.job.resources import TaskRequest, put_together
from bursar.config.yaml.value_readers import InvalidValue, key_path, read_mapping
from bursar.config.yaml.yaml_text import read_yaml
from bursar.model.jobs.job import CheckpointPolicy, Constraints, JobSpec, TaskGroup
from bursar.model.jobs.run_spec import Mount, RunSpec
from bursar.model.units import SECOND_MS

DEFAULT_NAME = "job"
NO_CHECKPOINT = (CheckpointPolicy(), None)
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefaults:
    """What a document may leave to its surroundings: the queue, when "now" is, and whose job it is."""

    default_queue: str | None = None
    now_ms: int | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDocument:
    """What a job file says.

    ``document`` is the job as JSON, which is YAML too, with the names of its secrets but not their
    values. ``local_files`` must be sent and replaced by their hashes before the job can run.
    """

    spec: JobSpec
    recipe: RunSpec
    labels: Mapping[str, str] = field(default_factory=dict)
    document: str
    local_files: tuple[LocalFile, ...] = ()


_PLAIN_TERMS = JobDefaults()


def parse_job(text: str, file: str, terms: JobDefaults = _PLAIN_TERMS) -> JobDocument:
    """Read YAML text; a mistake is told with file, line and column."""
    placed = read_yaml(text, file)
    try:
        return _read(_or_nothing(placed.value), terms)
    except InvalidValue as wrong:
        place = placed.place(file, wrong.path, at_key=wrong.at_key)
        raise wrong.as_user_error(place) from None


def read_job(plain: Mapping[str, Any], terms: JobDefaults = _PLAIN_TERMS) -> JobDocument:
    """Read parsed JSON; a mistake is told with the path of keys."""
    try:
        return _read(plain, terms)
    except InvalidValue as wrong:
        raise wrong.as_user_error(key_path(wrong.path)) from None


def _or_nothing(value: Any) -> Any:
    if value is None:
        raise InvalidValue("is empty", "Write at least 'run: echo hello'.", "missing-key")
    return value


def _read(plain: Any, terms: JobDefaults) -> JobDocument:
    said = read_mapping(plain, JOB)
    if "run" not in said:
        fix = "Write 'run:' and the commands, for example 'run: python train.py'."
        raise InvalidValue("does not say what to run: 'run' is missing", fix, "missing-key")
    labels = said.get("labels", NOTHING)
    spec = _spec(said, terms)
    recipe, local_files = _recipe(said)
    return JobDocument(
        spec=spec,
        recipe=recipe,
        labels=labels,
        document=_document(plain, spec, recipe, labels),
        local_files=local_files,
    )


# -- what the scheduler reads ------------------------------------------------------------------------


def _spec(said: dict[str, Any], terms: JobDefaults) -> JobSpec:
    queue = said.get("queue") or terms.default_queue
    if queue is None:
        fix = "Write 'queue:' and its name; 'bursar quota' lists those you may use."
        raise InvalidValue(
            "does not say in which queue it waits: 'queue' is missing", fix, "missing-key"
        )
    resources = said.get("resources", {})
    wanted = _wanted(said, resources)
    expected, most = said.get("expected_hours"), said.get("max_hours")
    if expected is not None and most is not None and expected > most:
        fix = "Lower expected_hours or raise max_hours."
        raise InvalidValue("is more than max_hours", fix, "expected-over-max").inside(
            "expected_hours"
        )
    name = said.get("name", DEFAULT_NAME)
    return JobSpec(
        name=name,
        queue=queue,
        similarity_keys=(queue, terms.user, name) if terms.user is not None else (),
        groups=(_group(said, resources, wanted),),
        priority_class=said.get("priority", "normal"),
        preemptible=said.get("preemptible", True),
        expected_run_ms=expected,
        max_run_ms=most,
        deadline_ms=_deadline_ms(said, terms),
        constraints=_constraints(said, resources, wanted),
        checkpoint=said.get("checkpoint", NO_CHECKPOINT)[0],
        depends_on=said.get("depends_on", ()),
        retries=said.get("retries", 0),
        array_size=said.get("array", 1),
        max_cost_micro_usd=said.get("max_cost"),
    )


def _wanted(said: dict[str, Any], resources: dict[str, Any]) -> TaskRequest:
    if "gpu" in said and "gpu" in resources:
        fix = "Keep one of them."
        raise InvalidValue("stands also in resources", fix, "two-choices").inside("gpu")
    try:
        return put_together(resources, said.get("gpu") or resources.get("gpu"))
    except InvalidValue as wrong:
        raise wrong.inside("resources") from None


def _group(said: dict[str, Any], resources: dict[str, Any], wanted: TaskRequest) -> TaskGroup:
    count, least = said.get("num_nodes", 1), said.get("min_nodes")
    if least is not None and least > count:
        fix = f"Write 1 to {count:,}, or raise num_nodes."
        problem = f"is {least:,}, more than num_nodes, which is {count:,}"
        raise InvalidValue(problem, fix, "min-over-count").inside("min_nodes")
    return TaskGroup(
        count=count,
        min_count=least,
        gpu=wanted.gpu,
        cpu_milli=resources.get("cpus", 0),
        memory_mib=resources.get("memory", 0),
        disk_mib=resources.get("disk_size", 0),
    )


def _constraints(
    said: dict[str, Any], resources: dict[str, Any], wanted: TaskRequest
) -> Constraints:
    return Constraints(
        node_labels=resources.get("node_labels", ()),
        tolerations=resources.get("tolerations", ()),
        topology=said.get("topology"),
        spread=said.get("spread"),
        apart=said.get("apart"),
        markets=wanted.markets,
        choose_by=wanted.choose_by,
        anchors_percent=resources.get("anchors_percent", 0),
    )


def _deadline_ms(said: dict[str, Any], terms: JobDefaults) -> int | None:
    if "deadline" not in said:
        return None
    now_ms = round(time.time() * SECOND_MS) if terms.now_ms is None else terms.now_ms
    moment_ms: int = said["deadline"].moment_ms(now_ms)
    return moment_ms


# -- what the engine reads -----------------------------------------------------------------------------


def _recipe(said: dict[str, Any]) -> tuple[RunSpec, tuple[LocalFile, ...]]:
    commands = said["run"]
    argv = commands if isinstance(commands, tuple) else ()
    if argv and "setup" in said:
        fix = "Write 'run' as one text beside 'setup'."
        raise InvalidValue("stands beside a 'run' that is a list", fix, "two-choices").inside(
            "setup"
        )
    envs, secrets = said.get("envs", NOTHING), said.get("secrets", NOTHING)
    for name in secrets:
        if name in envs:
            fix = "Keep it in secrets alone."
            raise (
                InvalidValue("stands also in envs", fix, "duplicate-key")
                .inside(name)
                .inside("secrets")
            )
    workdir: MountSource | None = said.get("workdir")
    mounts: dict[str, MountSource] = said.get("file_mounts", {})
    recipe = RunSpec(
        run="" if argv else commands,
        setup=said.get("setup", ""),
        argv=argv,
        envs=envs,
        secrets=secrets,
        workdir=workdir.bundle if workdir else None,
        mounts=tuple(Mount(target=t, bundle=s.bundle) for t, s in mounts.items() if s.bundle),
        grace_seconds=said.get("grace", 30),
        stop_signal=said.get("checkpoint", NO_CHECKPOINT)[1] or "SIGTERM",
    )
    return recipe, _local_files(workdir, mounts)


def _local_files(
    workdir: MountSource | None, mounts: dict[str, MountSource]
) -> tuple[LocalFile, ...]:
    found = [LocalFile(path=workdir.path)] if workdir and workdir.path else []
    found += [LocalFile(path=s.path, target=target) for target, s in mounts.items() if s.path]
    return tuple(found)


# -- the document --------------------------------------------------------------------------------------


def _document(
    plain: Mapping[str, Any], spec: JobSpec, recipe: RunSpec, labels: Mapping[str, str]
) -> str:
    """What was written, with texts as they were understood and without what is secret."""
    kept = {key: value for key, value in plain.items() if value is not None}
    kept["queue"] = spec.queue
    if recipe.envs:
        kept["envs"] = recipe.envs
    if labels:
        kept["labels"] = labels
    if recipe.secrets:
        kept["secrets"] = dict.fromkeys(recipe.secrets)
    return _WRITE(kept)


def _json_number(value: Decimal) -> float:
    return float(value)


_WRITE = json.JSONEncoder(ensure_ascii=False, default=_json_number).encode

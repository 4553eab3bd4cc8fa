"""Builders of events and batches for the tests of stores."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from bursar.model import event as ev
from bursar.model.jobs.attempt import Exit, Placement, Task
from bursar.model.jobs.job import JobSpec, TaskGroup, WholeGpus
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import AuditEntry, Batch, JobOrigin

_ids = count(1)


def spec(name: str = "train", queue: str = "research", **more: object) -> JobSpec:
    groups = (TaskGroup(gpu=WholeGpus(count=1), cpu_milli=1_000, memory_mib=1_024),)
    return JobSpec(name=name, queue=queue, groups=groups, **more)  # type: ignore[arg-type]


def submitted(job_id: str, at_ms: int = 1_000, **of_spec: object) -> ev.JobSubmitted:
    job_spec = spec(**{"name": job_id, **of_spec})  # type: ignore[arg-type]
    return ev.JobSubmitted(at_ms=at_ms, job_id=job_id, spec=job_spec, priority=10)


def placement(*nodes: str) -> Placement:
    tasks = tuple(Task(group="main", node=node, count=1, gpus=(0,)) for node in nodes)
    return Placement(
        pool="a100", flavor="a100-80gb/owned", tasks=tasks, micro_usd_per_hour=2_000_000
    )


def assigned(
    job_id: str, attempt: int = 1, *, at_ms: int = 2_000, node: str = "n1"
) -> ev.AttemptAssigned:
    where = placement(node)
    return ev.AttemptAssigned(at_ms=at_ms, job_id=job_id, attempt=attempt, placement=where)


def started(job_id: str, attempt: int = 1, at_ms: int = 3_000) -> ev.AttemptStarted:
    return ev.AttemptStarted(at_ms=at_ms, job_id=job_id, attempt=attempt)


def saved(job_id: str, attempt: int = 1, at_ms: int = 3_500) -> ev.CheckpointSaved:
    return ev.CheckpointSaved(at_ms=at_ms, job_id=job_id, attempt=attempt)


def succeeded(job_id: str, attempt: int = 1, at_ms: int = 4_000) -> ev.AttemptSucceeded:
    return ev.AttemptSucceeded(at_ms=at_ms, job_id=job_id, attempt=attempt)


def failed(job_id: str, attempt: int = 1, at_ms: int = 4_000) -> ev.AttemptFailed:
    status = Exit(code=3, detail="out of memory")
    return ev.AttemptFailed(at_ms=at_ms, job_id=job_id, attempt=attempt, exit=status)


def preempted(job_id: str, attempt: int = 1, at_ms: int = 4_000) -> ev.AttemptPreempted:
    return ev.AttemptPreempted(at_ms=at_ms, job_id=job_id, attempt=attempt, exit=Exit(signal=15))


def cancelled(job_id: str, at_ms: int = 5_000) -> ev.JobCancelled:
    return ev.JobCancelled(at_ms=at_ms, job_id=job_id)


def origin(
    owner: str = "ann",
    labels: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> JobOrigin:
    recipe = RunSpec(run="python train.py", envs={"LR": "0.1"}, secrets=secrets or {})
    return JobOrigin(owner=owner, recipe=recipe, labels=labels or {}, document="run: train\n")


def batch(*events: ev.LoggedEvent, origins: Mapping[str, JobOrigin] | None = None) -> Batch:
    return Batch(events=events, origins=origins or {})


def new_jobs(count_of_jobs: int) -> Batch:
    """A batch of new jobs with unique ids."""
    return batch(*(submitted(f"j-{next(_ids):06d}") for _ in range(count_of_jobs)))


def audit_entry(action: str = "submit", detail: str = "") -> AuditEntry:
    return AuditEntry(
        at_ms=1_000,
        user="ann",
        token_id="t1",
        action=action,
        subject="j-1",
        outcome="done",
        detail=detail,
    )

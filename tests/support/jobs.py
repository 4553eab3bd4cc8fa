"""Job specs. A test sets only what matters to it."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import (
    CheckpointPolicy,
    Constraints,
    FlavorChoice,
    GpuRequest,
    JobSpec,
    MigSlice,
    MpsShare,
    Slo,
    Spread,
    TaskGroup,
    Toleration,
    Topology,
    WholeGpus,
)
from bursar.model.units import GIB_MIB, HOUR_MS, MILLI
from tests.support.fleets import MAIN_QUEUE


class GroupTerms(TypedDict, total=False):
    """Options of the tasks of a group; ``gpu_memory_gib`` is of each GPU, or of the share."""

    min_tasks: int
    models: tuple[str, ...]
    gpu_memory_gib: float
    cpu: float
    memory_gib: float
    disk_gib: float


class WholeJobTerms(TypedDict, total=False):
    """Options of a whole job; ``hours`` is expected, ``max_hours`` is the limit."""

    hours: float
    max_hours: float
    priority_class: str
    preemptible: bool
    deadline_ms: int
    slo: Slo
    checkpoint: CheckpointPolicy
    depends_on: tuple[str, ...]
    retries: int
    array_size: int
    max_cost_micro_usd: int
    node_labels: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]
    topology: Topology
    spread: Spread
    apart: str
    markets: tuple[Market, ...]
    choose_by: FlavorChoice
    anchors_percent: int


class JobOptions(GroupTerms, WholeJobTerms, total=False):
    """All options of a job with one group."""


_OF_A_GROUP = frozenset(GroupTerms.__annotations__)
_OF_CONSTRAINTS = frozenset(Constraints.__dataclass_fields__)


def job(
    name: str = "job",
    gpus: int = 1,
    tasks: int = 1,
    queue: str = MAIN_QUEUE,
    **terms: Unpack[JobOptions],
) -> JobSpec:
    """Tasks with whole GPUs: ``job("train", gpus=8, tasks=4, hours=2)``; ``gpus=0`` asks for none."""
    return _spec(name, queue, (_group("main", tasks, _whole(gpus, terms), terms),), terms)


def mig_job(
    name: str = "slice",
    profile: str = "1g.10gb",
    tasks: int = 1,
    queue: str = MAIN_QUEUE,
    **terms: Unpack[JobOptions],
) -> JobSpec:
    """Tasks with one MIG instance each."""
    request = MigSlice(profile=profile, models=terms.get("models", ()))
    return _spec(name, queue, (_group("main", tasks, request, terms),), terms)


def mps_job(
    name: str = "share",
    percent: int = 25,
    tasks: int = 1,
    queue: str = MAIN_QUEUE,
    **terms: Unpack[JobOptions],
) -> JobSpec:
    """Tasks with one MPS share each; ``gpu_memory_gib`` is the share's memory."""
    request = MpsShare(
        percent=percent,
        memory_mib=_mib(terms.get("gpu_memory_gib", 0)),
        models=terms.get("models", ()),
    )
    return _spec(name, queue, (_group("main", tasks, request, terms),), terms)


def group(name: str, tasks: int = 1, gpus: int = 0, **terms: Unpack[GroupTerms]) -> TaskGroup:
    """One group of a ``gang``; without ``gpus`` its tasks have none."""
    return _group(name, tasks, _whole(gpus, terms), terms)


def gang(
    name: str, *groups: TaskGroup, queue: str = MAIN_QUEUE, **terms: Unpack[WholeJobTerms]
) -> JobSpec:
    """Several groups: ``gang("train", group("launcher", cpu=4), group("worker", 16, gpus=8))``."""
    return _spec(name, queue, groups, terms)


def _whole(gpus: int, terms: GroupTerms | JobOptions) -> WholeGpus | None:
    if gpus == 0:
        return None
    least_mib = _mib(terms.get("gpu_memory_gib", 0))
    return WholeGpus(count=gpus, models=terms.get("models", ()), min_memory_mib=least_mib)


def _group(
    name: str, tasks: int, request: GpuRequest | None, terms: GroupTerms | JobOptions
) -> TaskGroup:
    return TaskGroup(
        name=name,
        count=tasks,
        min_count=terms.get("min_tasks"),
        gpu=request,
        cpu_milli=round(terms.get("cpu", 0) * MILLI),
        memory_mib=_mib(terms.get("memory_gib", 0)),
        disk_mib=_mib(terms.get("disk_gib", 0)),
    )


def _spec(
    name: str, queue: str, groups: tuple[TaskGroup, ...], terms: WholeJobTerms | JobOptions
) -> JobSpec:
    options: dict[str, Any] = {key: value for key, value in terms.items() if key not in _OF_A_GROUP}
    hours, max_hours = options.pop("hours", None), options.pop("max_hours", None)
    where = {key: options.pop(key) for key in sorted(options) if key in _OF_CONSTRAINTS}
    return JobSpec(
        name=name,
        queue=queue,
        groups=groups,
        expected_run_ms=None if hours is None else round(hours * HOUR_MS),
        max_run_ms=None if max_hours is None else round(max_hours * HOUR_MS),
        constraints=Constraints(**where),
        **options,
    )


def _mib(gib: float) -> int:
    return round(gib * GIB_MIB)

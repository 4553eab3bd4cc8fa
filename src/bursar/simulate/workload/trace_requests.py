"""Maps what the jobs of a trace request to task groups and constraints of a fleet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market, Pool
from bursar.model.fleet.gpu import MigGeometry, MigProfile
from bursar.model.jobs.job import (
    Constraints,
    GpuRequest,
    MigSlice,
    MpsShare,
    TaskGroup,
    Toleration,
    WholeGpus,
)
from bursar.model.units import MILLI

MILLI_PER_PERCENT: Final = MILLI // 100
TOLERANCE_MILLI: Final = 10
"""A seventh of a GPU is written as 15 % and still fits one slice of seven."""


class TraceRequest(NamedTuple):
    """The fields of a trace's job that decide whether and where it can run."""

    queue: str
    tasks: int
    gpus: int
    gpu_milli: int
    gpu_models: tuple[str, ...]
    cpu_milli: int
    memory_mib: int


def all_markets(pools: Iterable[Pool]) -> Constraints:
    """Allows all markets, and tolerates the taints of spot pools."""
    taints = {
        (taint.key, taint.value)
        for pool in pools
        if pool.market is Market.SPOT
        for taint in pool.taints
    }
    return Constraints(
        markets=tuple(Market),
        tolerations=tuple(Toleration(key=key, value=value) for key, value in sorted(taints)),
    )


def task_groups(
    request: TraceRequest, models: tuple[str, ...], gpus_per_node: int
) -> tuple[TaskGroup, ...]:
    """Splits tasks that need more GPUs than a node has: full nodes, and one for the remainder."""
    if request.gpus <= max(1, gpus_per_node):
        return (_group("main", request, request.tasks, _gpu_request(request, models)),)
    full, rest = divmod(request.gpus, gpus_per_node)
    whole = WholeGpus(count=gpus_per_node, models=models)
    groups = [_group("main", request, request.tasks * full, whole)]
    if rest:
        rest_gpus = WholeGpus(count=rest, models=models)
        groups.append(_group("rest", request, request.tasks, rest_gpus))
    return tuple(groups)


def _group(name: str, request: TraceRequest, count: int, gpu: GpuRequest | None) -> TaskGroup:
    """CPU and memory of a split task are divided in proportion to its GPUs."""
    gpus = gpu.count if isinstance(gpu, WholeGpus) else request.gpus
    total = max(1, request.gpus)
    return TaskGroup(
        name=name,
        count=count,
        gpu=gpu,
        cpu_milli=request.cpu_milli * gpus // total if gpus else request.cpu_milli,
        memory_mib=request.memory_mib * gpus // total if gpus else request.memory_mib,
    )


def _gpu_request(request: TraceRequest, models: tuple[str, ...]) -> GpuRequest | None:
    if request.gpus:
        return WholeGpus(count=request.gpus, models=models)
    if not request.gpu_milli:
        return None
    percent = -(-request.gpu_milli // MILLI_PER_PERCENT)
    if percent >= 100:
        return WholeGpus(count=-(-percent // 100), models=models)
    return MpsShare(percent=percent, models=models)


# -- MIG slices ------------------------------------------------------------------------------------


def mig_geometry(pools: Iterable[Pool]) -> MigGeometry:
    """The MIG geometry of the first pool with MIG; profile names differ between GPU models."""
    for pool in sorted(pools, key=lambda pool: pool.name):
        if pool.mig_allowed and pool.gpu_model is not None and pool.gpu_model.mig is not None:
            return pool.gpu_model.mig
    raise UserError(
        "No pool of the fleet has GPUs with MIG.",
        fix="Omit --mig, or add a pool of GPUs with MIG, such as A100 or H100.",
        code="no-mig",
    )


def with_slices(group: TaskGroup, geometry: MigGeometry) -> TaskGroup:
    """Replaces a GPU share by the smallest MIG slice of at least its size."""
    share = group.gpu
    if not isinstance(share, MpsShare):
        return group
    wanted_milli = share.percent * MILLI_PER_PERCENT
    profiles = [one for one in geometry.profiles if not one.has_media_engines]
    fitting = [
        one for one in profiles if _size_milli(one, geometry) + TOLERANCE_MILLI >= wanted_milli
    ]
    chosen = min(fitting, key=lambda one: (one.compute_slices, one.memory_slices, one.name))
    return replace(group, gpu=MigSlice(profile=chosen.name, models=share.models))


def _size_milli(profile: MigProfile, geometry: MigGeometry) -> int:
    return MILLI * profile.compute_slices // geometry.compute_slices

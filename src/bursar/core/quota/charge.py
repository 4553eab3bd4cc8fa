"""What tasks are charged: GPU fractions, quota, dollars and fair-share weight."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from bursar.model.fleet.fleet import Pool
from bursar.model.fleet.gpu import GpuModel, slice_milli
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import JobSpec, MigSlice, MpsShare, TaskGroup, WholeGpus
from bursar.model.tenants.policy import UsageUnit
from bursar.model.tenants.tenant import CPU, GPU, MEMORY, FlavorResource
from bursar.model.units import HOUR_MS, MILLI

MILLI_PER_PERCENT = MILLI // 100

MOST_CHARGES: Final = 8_192
"""Above this number of cached charges, all are dropped."""


def gpu_milli(group: TaskGroup, spec: Pool) -> int:
    """How much of a GPU one task takes, in thousandths."""
    match group.gpu:
        case WholeGpus(count=count):
            return count * MILLI
        case MigSlice(profile=profile) if spec.gpu_model is not None and spec.gpu_model.mig:
            return slice_milli(spec.gpu_model.mig, profile)
        case MpsShare(percent=percent):
            return percent * MILLI_PER_PERCENT
        case _:
            return 0


def gpu_milli_held(task: Task, model: GpuModel | None) -> int:
    """How much GPU the tasks on one node hold together, in thousandths."""
    held = len(task.gpus) * MILLI + sum(use.percent for use in task.shares) * MILLI_PER_PERCENT
    if task.slices and model is not None and model.mig is not None:
        held += sum(slice_milli(model.mig, use.instance.profile) for use in task.slices)
    return held


def quota_request(
    placement: Placement, model: GpuModel | None, limited: Collection[FlavorResource]
) -> dict[FlavorResource, int]:
    """What a placement takes of the quotas of its flavor; unlimited resources are left out."""
    gpu = cpu = memory = 0
    for task in placement.tasks:
        gpu += gpu_milli_held(task, model)
        cpu += task.cpu_milli
        memory += task.memory_mib
    amounts = {GPU: gpu, CPU: cpu, MEMORY: memory}
    flavor = placement.flavor
    return {
        (flavor, resource): amount
        for resource, amount in amounts.items()
        if amount and (flavor, resource) in limited
    }


def hourly_micro_usd(spec: Pool, gpu_milli: int, cpu_milli: int, memory_mib: int) -> int:
    """The price of an hour: the largest fraction taken of a node, times its price."""
    price = spec.node_micro_usd_per_hour
    parts = [price * cpu_milli // max(1, spec.cpu_milli)]
    parts.append(price * memory_mib // max(1, spec.memory_mib))
    if spec.gpus_per_node:
        parts.append(price * gpu_milli // (spec.gpus_per_node * MILLI))
    return min(price, max(parts))


def placement_micro_usd(spec: Pool, tasks: Collection[Task]) -> int:
    """What an hour of all these tasks costs in a pool."""
    return sum(
        hourly_micro_usd(
            spec, gpu_milli_held(task, spec.gpu_model), task.cpu_milli, task.memory_mib
        )
        for task in tasks
    )


def share_weight(placement: Placement, spec: Pool, unit: UsageUnit) -> int:
    """What a placement counts in fair share: its dollars, or its GPUs normalised by model."""
    if unit is UsageUnit.DOLLARS:
        return placement.micro_usd_per_hour
    if spec.gpu_model is None:
        return 0
    held = sum(gpu_milli_held(task, spec.gpu_model) for task in placement.tasks)
    return held * spec.gpu_model.relative_speed_milli // MILLI


class Charge(NamedTuple):
    """What a placement takes of the limited quotas, and its weight in fair share."""

    placement: Placement
    request: Mapping[FlavorResource, int]
    weight: int


class ChargeCache:
    """Charges by placement object: plans reuse the same ones.

    The object is stored with its charge, so no other object can get its address meanwhile.
    """

    def __init__(self, spec_of: Callable[[str], Pool], unit: UsageUnit) -> None:
        self._spec_of = spec_of
        self._unit = unit
        self._limited: Collection[FlavorResource] = ()
        self._known: dict[int, Charge] = {}

    def limit(self, limited: Collection[FlavorResource]) -> None:
        """Set the limited resources and clear the cache."""
        self._limited = limited
        self._known.clear()

    def of(self, placement: Placement) -> Charge:
        """The charge of a placement."""
        known = self._known.get(id(placement))
        if known is not None:
            return known
        spec = self._spec_of(placement.pool)
        request = quota_request(placement, spec.gpu_model, self._limited)
        weight = share_weight(placement, spec, self._unit)
        if placement.anchors is not None:
            anchors = self.of(placement.anchors)
            request, weight = request | dict(anchors.request), weight + anchors.weight
        charge = Charge(placement, request, weight)
        if len(self._known) >= MOST_CHARGES:
            self._known.clear()
        self._known[id(placement)] = charge
        return charge


def run_time_of(spec: JobSpec) -> int | None:
    """How long a job may run, for planning: its limit, else what its user expects, else its SLO."""
    if spec.max_run_ms is not None or spec.expected_run_ms is not None:
        return spec.max_run_ms or spec.expected_run_ms
    if spec.slo is None:
        return None
    gpus = sum(g.count * g.gpu.count for g in spec.groups if isinstance(g.gpu, WholeGpus))
    return spec.slo.gpu_ms // max(1, gpus)


def lost_micro_usd(hourly: int, unsaved_ms: int, restart_ms: int) -> int:
    """The cost of stopping now: unsaved work and the restart, at the price it ran at."""
    return hourly * (unsaved_ms + restart_ms) // HOUR_MS

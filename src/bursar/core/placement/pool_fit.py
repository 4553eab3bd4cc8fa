"""Which pools could run a shape, and at what expected cost.

Computed once for each distinct shape and cached until a pool or a price changes.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby, takewhile
from typing import Final

from bursar.core.nodes.node import NodeState
from bursar.core.nodes.node_index import Scorer
from bursar.core.nodes.pool import PoolState
from bursar.core.nodes.workload_mix import TaskShape
from bursar.core.placement.anchor_split import anchor_pairs, smallest_mixed_counts, split_anchors
from bursar.core.placement.search import Allocation, task_on
from bursar.core.quota.charge import gpu_milli, hourly_micro_usd, placement_micro_usd, run_time_of
from bursar.model.fleet.fleet import Market, Pool
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.checkpoint_formulas import InterruptionHazard, expected_run_ms
from bursar.model.jobs.job import (
    FlavorChoice,
    JobShape,
    JobSpec,
    MigSlice,
    MpsShare,
    TaskGroup,
    WholeGpus,
)
from bursar.model.reason import NoCapacity
from bursar.model.tenants.tenant import CPU, GPU, MEMORY, FlavorResource
from bursar.model.units import HOUR_MS, MILLI, round_up_run_time_ms

MOST_ALLOCATIONS: Final = 4_096
"""Cached allocations of one shape; above this number, all are dropped."""

Counts = tuple[int, ...]
"""The number of tasks of each group: the full size, or less for an elastic gang."""

MILLION: Final = 1_000_000

NO_ANCHORS: Final = "no non-spot pool could run the anchors (anchors_percent)"

AllocationCache = dict[tuple[str, tuple[int, ...]], Allocation]
"""Allocations of one task, by node and GPUs."""


class PoolFit:
    """One pool that could run a shape when empty, and what the shape requests there.

    With ``anchors`` it is a spot pool together with a non-spot pool, for a mixed gang (``anchor_split.py``).

    Failed searches of a single task are cached across cycles: ``blocked_at`` is the pool's ``position`` at
    the time (-1: search the whole pool again).
    """

    def __init__(
        self,
        plan: ShapePlan,
        pool: PoolState,
        limited: Collection[FlavorResource],
        anchors: PoolFit | None = None,
    ) -> None:
        self.pool = pool
        self.anchors = anchors
        self.name: str = pool.spec.name if anchors is None else f"{pool.spec.name}+{anchors.name}"
        self.min_counts = plan.min_counts
        self.flavor = pool.spec.flavor
        self.is_spot = pool.spec.market is Market.SPOT
        self.gpu_milli_per_task = tuple(gpu_milli(group, pool.spec) for group in plan.groups)
        self.request_of: dict[Counts, dict[FlavorResource, int]] = {}
        self.plan = plan
        self.limited = limited
        self.own_micro_usd = self.hourly_micro_usd = self.price_of(self.parts(plan.counts)[0][1])
        if anchors is not None:
            self.min_counts = smallest_mixed_counts(plan) or plan.min_counts
            self.hourly_micro_usd += anchors.price_of(split_anchors(plan, plan.counts)[1])
        self.expected_micro_usd = self.expected_cost(pool.interruptions_per_million_hours)
        self.blocked_at = -1
        self._no_capacity: NoCapacity | None = None
        self._no_capacity_at = -1

    def price_of(self, counts: Counts) -> int:
        """The hourly price of these tasks in this pool."""
        spec = self.pool.spec
        return sum(
            count * hourly_micro_usd(spec, milli, group.cpu_milli, group.memory_mib)
            for group, milli, count in zip(
                self.plan.groups, self.gpu_milli_per_task, counts, strict=True
            )
        )

    def parts(self, counts: Counts) -> tuple[tuple[PoolFit, Counts], ...]:
        """The tasks in each pool: this one, and that of the anchors."""
        if self.anchors is None:
            return ((self, counts),)
        rest, anchored = split_anchors(self.plan, counts)
        return (self, rest), (self.anchors, anchored)

    def is_at(self, placement: Placement) -> bool:
        """Whether a placement is in the pools of this fit."""
        anchors = None if placement.anchors is None else placement.anchors.pool
        own = None if self.anchors is None else self.anchors.pool.spec.name
        return self.pool.spec.name == placement.pool and own == anchors

    def expected_cost(self, per_million_hours: int) -> int:
        """Price x expected run time with rework, in micro-dollars, at this rate of node losses."""
        plan = self.plan
        if not per_million_hours:
            return self.hourly_micro_usd * plan.run_ms // HOUR_MS
        hazard = self.hazard(per_million_hours)
        run_ms = expected_run_ms(plan.run_ms, plan.shape.checkpoint, hazard)
        return self.hourly_micro_usd * run_ms // HOUR_MS

    def hazard(self, per_million_hours: int) -> InterruptionHazard:
        """How often the shape is interrupted, on as many nodes as it pays for.

        Anchors are not interrupted, so only the nodes of this pool count.
        """
        price = self.pool.spec.node_micro_usd_per_hour
        nodes = -(-self.own_micro_usd // price) if price else 1
        return InterruptionHazard(per_million_hours=per_million_hours, nodes=max(1, nodes))

    def request(self, counts: Counts) -> dict[FlavorResource, int]:
        """What these tasks take of the limited quotas."""
        request = self.request_of.get(counts)
        if request is None:
            request = {(self.flavor, GPU): 0, (self.flavor, CPU): 0, (self.flavor, MEMORY): 0}
            own = self.parts(counts)[0][1]
            for group, milli, count in zip(
                self.plan.groups, self.gpu_milli_per_task, own, strict=True
            ):
                request[self.flavor, GPU] += milli * count
                request[self.flavor, CPU] += group.cpu_milli * count
                request[self.flavor, MEMORY] += group.memory_mib * count
            request = {fr: n for fr, n in request.items() if n and fr in self.limited}
            if self.anchors is not None:
                request |= self.anchors.request(split_anchors(self.plan, counts)[1])
            self.request_of[counts] = request
        return request

    def known_no_capacity(self) -> NoCapacity | None:
        """Why a single task did not fit, if the pool has not changed since."""
        return self._no_capacity if self._no_capacity_at == self.pool.changes else None

    def remember_no_capacity(self, reason: NoCapacity) -> None:
        """Cache the reason of a single task; a gang's also depends on its size."""
        if self.plan.is_single:
            self._no_capacity, self._no_capacity_at = reason, self.pool.changes

    def placement_for(self, allocation: Allocation) -> Placement:
        """The tasks of an allocation with their pool and current price."""
        if allocation.placement is not None:
            return allocation.placement
        placement = placement_of(self.pool.spec, allocation.tasks)
        if self.anchors is None:
            return placement
        return replace(placement, anchors=placement_of(self.anchors.pool.spec, allocation.anchors))

    def allocation_on(self, node: NodeState) -> Allocation:
        """The allocation of one plain task on a node now."""
        wanted = self.plan.plain_gpus
        gpus = node.lowest_free_gpus(wanted) if wanted else ()
        allocation = self.plan.allocations.get((node.id, gpus))
        if allocation is None:
            allocation = self._new_allocation(node, gpus)
        return allocation

    def _new_allocation(self, node: NodeState, gpus: tuple[int, ...]) -> Allocation:
        tasks = (task_on(self.plan.groups[0], node, 1, gpus),)
        allocation = Allocation(tasks=tasks, placement=placement_of(self.pool.spec, tasks))
        cached = self.plan.allocations
        if len(cached) >= MOST_ALLOCATIONS:
            cached.clear()
        cached[node.id, gpus] = allocation
        return allocation


def placement_of(spec: Pool, tasks: tuple[Task, ...]) -> Placement:
    """Tasks with their pool and current price."""
    return Placement(
        pool=spec.name,
        flavor=spec.flavor,
        tasks=tasks,
        micro_usd_per_hour=placement_micro_usd(spec, tasks),
    )


class ShapePlan:
    """A shape with everything derived from it.

    ``gpu_milli`` is how much GPU all its tasks take together, on the pool it would try first.
    ``allocations`` caches the allocations of one plain task, shared by all shapes that need the same
    capacity. ``similar_by_pool`` counts, where there are several spot pools, the live jobs of those shapes
    in each pool. With ``needs_pool_choice`` each job orders its pools anew (``spot/pool_choice.py``).
    """

    def __init__(self, plan_id: int, shape: JobShape, unknown_run_ms: int) -> None:
        self.id = plan_id
        self.shape = shape
        self.backlog_count = 0
        self.groups = shape.groups
        self.counts: Counts = tuple(group.count for group in shape.groups)
        self.min_counts: Counts = tuple(
            group.count if group.min_count is None else group.min_count for group in shape.groups
        )
        self.tasks = sum(self.counts)
        self.run_ms = unknown_run_ms if shape.run_ms is None else shape.run_ms
        self.capacity_key: Hashable = plan_id
        self.is_single = _is_single(shape)
        self.is_plain = self.is_single and not isinstance(shape.groups[0].gpu, MpsShare)
        gpu = shape.groups[0].gpu
        self.plain_gpus = gpu.count if self.is_plain and isinstance(gpu, WholeGpus) else 0
        self.has_slices = any(isinstance(group.gpu, MigSlice) for group in shape.groups)
        self.allocations: AllocationCache = {}
        self.similar_by_pool: dict[str, int] | None = None
        self.needs_pool_choice = False
        self.fits: tuple[PoolFit, ...] = ()
        self.tiers: tuple[tuple[PoolFit, ...], ...] = ()
        self.ranked_as: tuple[Scorer, TaskShape] | None = None
        self.gpu_milli = 0
        self.problem = ""

    @property
    def is_elastic(self) -> bool:
        return self.min_counts != self.counts

    def match(self, pools: Sequence[PoolState], limited: Collection[FlavorResource]) -> None:
        """Find the pools that could run the shape, best first; ``problem`` explains if there are none."""
        self.allocations.clear()
        problems: list[str] = []
        fits: list[PoolFit] = []
        for pool in pools:
            problem = mismatch(self.shape, pool)
            if problem:
                problems.append(f"{pool.spec.name} {problem}")
            else:
                fits.append(PoolFit(self, pool, limited))
        if self.shape.constraints.anchors_percent and fits:
            fits = self._anchored(fits, limited)
            problems.append(NO_ANCHORS)
        fits.sort(key=lambda fit: self._preference(fit))
        self.fits = tuple(fits)
        self.tiers = self._tiers()
        if self.shape.own or self.similar_by_pool is not None:
            self._set_needs_pool_choice()
        self.gpu_milli = 0
        if fits:
            each = fits[0].gpu_milli_per_task
            self.gpu_milli = sum(milli * n for milli, n in zip(each, self.counts, strict=True))
        self.problem = "" if fits else "; ".join(problems) or "the fleet has no pools"

    def _anchored(
        self, fits: Sequence[PoolFit], limited: Collection[FlavorResource]
    ) -> list[PoolFit]:
        """Non-spot pools alone, and each together with a spot pool; no spot pool alone."""
        mixed = [PoolFit(self, one.pool, limited, other) for one, other in anchor_pairs(self, fits)]
        return [fit for fit in fits if not fit.is_spot] + mixed

    def _set_needs_pool_choice(self) -> None:
        """Pools are chosen by a deadline, or to spread similar jobs over spot pools."""
        spot = sum(fit.is_spot for fit in self.fits)
        is_managed = bool(self.shape.own) and 0 < spot < len(self.fits)
        self.needs_pool_choice = is_managed or len(self.leading_spot_fits()) > 1

    def leading_spot_fits(self) -> tuple[PoolFit, ...]:
        """The spot pools that come before all others by expected cost; none if the job sets an order."""
        if self.similar_by_pool is None or self.shape.constraints.choose_by is FlavorChoice.ORDER:
            return ()
        return tuple(takewhile(lambda fit: fit.is_spot, self.fits))

    def _tiers(self) -> tuple[tuple[PoolFit, ...], ...]:
        """Groups of equally good fits, which a single task searches together.

        GPU models that a job lists are equally good if it chooses by cost and they cost the same. A gang
        stays in one pool, so its pools are tried one by one.
        """
        if not self.is_single:
            return tuple((fit,) for fit in self.fits)
        in_order = self.shape.constraints.choose_by is FlavorChoice.ORDER
        compared = 4 if in_order else 3
        groups = groupby(self.fits, key=lambda fit: self._preference(fit)[:compared])
        return tuple(tuple(fits) for _, fits in groups)

    def _preference(self, fit: PoolFit) -> tuple[int, int, int, int, str]:
        spec = fit.pool.spec
        wants_gpu = any(group.gpu is not None for group in self.groups)
        misplaced = int(spec.gpu_model is not None and not wants_gpu)
        market = self.shape.constraints.markets.index(spec.market)
        model = _model_rank(self.groups, spec)
        if self.shape.constraints.choose_by is FlavorChoice.ORDER:
            return misplaced, market, model, fit.expected_micro_usd, fit.name
        return misplaced, fit.expected_micro_usd, market, model, fit.name


def planned_run_ms(spec: JobSpec) -> int | None:
    """The planned run time of a job, rounded up."""
    run_ms = spec.max_run_ms or spec.expected_run_ms or run_time_of(spec)
    return None if run_ms is None else round_up_run_time_ms(run_ms)


def shape_of(spec: JobSpec) -> JobShape:
    """The attributes of a job that scheduling depends on; jobs of a queue that share them are one kind."""
    return JobShape(
        groups=spec.groups,
        constraints=spec.constraints,
        checkpoint=spec.checkpoint,
        preemptible=spec.preemptible,
        run_ms=planned_run_ms(spec),
    )


def _is_single(shape: JobShape) -> bool:
    """Whether a shape is one task without node constraints and without a MIG slice."""
    constraints = shape.constraints
    if len(shape.groups) != 1 or shape.groups[0].count != 1:
        return False
    if constraints.apart or constraints.spread or constraints.topology or constraints.node_labels:
        return False
    return not isinstance(shape.groups[0].gpu, MigSlice)


def _model_rank(groups: Iterable[TaskGroup], spec: Pool) -> int:
    for group in groups:
        if group.gpu is not None and group.gpu.models and spec.gpu_model is not None:
            return group.gpu.models.index(spec.gpu_model.name)
    return 0


def mismatch(shape: JobShape, pool: PoolState) -> str:
    """Why a pool could not run a shape even when empty; "" if it could."""
    spec = pool.spec
    constraints = shape.constraints
    if spec.market not in constraints.markets:
        return f"is {spec.market}, which the job does not allow"
    if spec.name in constraints.closed_pools:
        return "is closed to the job by a governance rule ('bursar rules' lists them)"
    for taint in spec.taints:
        if not any(
            t.key == taint.key and t.value in ("", taint.value) for t in constraints.tolerations
        ):
            return f"has the taint {taint.key}, which the job does not tolerate"
    if constraints.topology is not None and constraints.topology.layers:
        if constraints.spread is not None:
            return "cannot combine spread with topology layers"
        if any(isinstance(group.gpu, MigSlice | MpsShare) for group in shape.groups):
            return "supports topology layers only for tasks with whole GPUs"
    for level in _levels_named(shape):
        if level not in pool.levels:
            return f"has no topology level {level}"
    for group in shape.groups:
        problem = _group_mismatch(group, spec)
        if problem:
            return problem
    wanted = constraints.node_labels
    if wanted and not any(
        all(node.labels.get(key) == value for key, value in wanted) for node in pool.nodes
    ):
        return "has no node with the labels " + ", ".join(f"{k}={v}" for k, v in wanted)
    return ""


def _levels_named(shape: JobShape) -> list[str]:
    """The topology levels that a shape names."""
    topology, spread = shape.constraints.topology, shape.constraints.spread
    named = [] if spread is None else [spread.level]
    if topology is not None:
        named += [level for level in (topology.required, topology.preferred) if level is not None]
        named += [layer.level for layer in topology.layers]
    return named


def _group_mismatch(group: TaskGroup, spec: Pool) -> str:
    if group.cpu_milli > spec.cpu_milli:
        return (
            f"nodes have {spec.cpu_milli / MILLI:g} CPUs, a task wants {group.cpu_milli / MILLI:g}"
        )
    if group.memory_mib > spec.memory_mib:
        return f"nodes have {spec.memory_mib} MiB of memory, a task wants {group.memory_mib}"
    if group.disk_mib > spec.disk_mib:
        return f"nodes have {spec.disk_mib} MiB of local disk, a task wants {group.disk_mib}"
    if group.gpu is None:
        return ""
    model = spec.gpu_model
    if model is None or not spec.gpus_per_node:
        return "has no GPUs"
    if group.gpu.models and model.name not in group.gpu.models:
        return f"has {model.name}, the job wants {' or '.join(group.gpu.models)}"
    match group.gpu:
        case WholeGpus(count=count, min_memory_mib=least):
            if count > spec.gpus_per_node:
                return f"nodes have {spec.gpus_per_node} GPUs, a task wants {count}"
            if least > model.memory_mib:
                return f"GPUs have {model.memory_mib} MiB, the job wants at least {least}"
        case MigSlice(profile=profile):
            if not spec.mig_allowed or model.mig is None or model.mig.find(profile) is None:
                return f"cannot be partitioned into {profile}"
        case MpsShare(memory_mib=memory_mib):
            if memory_mib > model.memory_mib:
                return f"GPUs have {model.memory_mib} MiB, a share wants {memory_mib}"
    return ""

"""Rejects jobs that could never run: no pool fits, no pool is large enough, or no quota.

A job that merely has to wait is not a problem but a hold. A job that can never start on this fleet
would wait for ever, so it is rejected at submission, with numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.eligible_pools import unshared_plan
from bursar.core.admission.placement_rules import levels_named
from bursar.core.admission.problem import Problem
from bursar.core.nodes.node import NodeState
from bursar.core.nodes.pool import NODE_LEVEL, PoolState
from bursar.core.placement.pool_fit import Counts, PoolFit, ShapePlan, mismatch
from bursar.model.fleet.fleet import Market, Pool
from bursar.model.jobs.job import Constraints, GpuRequest, MigSlice, MpsShare, TaskGroup, WholeGpus
from bursar.model.reason import write_amount
from bursar.model.units import counted

POOLS_SHOWN = 6
ANY_NUMBER = 2**53


def feasibility_problems(request: AdmissionRequest) -> Iterator[Problem]:
    """The first of the three problems that applies, if any."""
    plan = unshared_plan(request.spec, request.state)
    if not plan.fits:
        yield _no_pool(request, plan)
        return
    too_small = {fit.name: _too_small(fit) for fit in plan.fits}
    large_enough = [fit for fit in plan.fits if not too_small[fit.name]]
    if not large_enough:
        yield _gang_too_large(plan, too_small)
        return
    yield from _over_quota(request, large_enough)


# -- one task of each group ------------------------------------------------------------------------


def _no_pool(request: AdmissionRequest, plan: ShapePlan) -> Problem:
    pools = request.state.pools
    reasons = [f"{name} {_mismatch(plan, pools[name])}" for name in sorted(pools)]
    return Problem(
        code="no-pool-fits",
        field="groups",
        text=f"cannot run on any pool: {_first_of(reasons) or 'the fleet has no pools'}",
        fix="Request what one of these pools has.",
    )


def _mismatch(plan: ShapePlan, pool: PoolState) -> str:
    return mismatch(plan.shape, pool) or (
        f"is spot, and no other pool can run the anchors (anchors_percent: "
        f"{plan.shape.constraints.anchors_percent}): they need a non-spot pool of the same cluster and "
        "GPU model and, on Slurm, of a common partition (label slurm.partition)"
    )


def _first_of(reasons: list[str]) -> str:
    rest = len(reasons) - POOLS_SHOWN
    return "; ".join(reasons[:POOLS_SHOWN]) + (
        f"; and {counted(rest, 'more pool')}" if rest > 0 else ""
    )


# -- a whole gang on an empty pool -----------------------------------------------------------------


def _gang_too_large(plan: ShapePlan, too_small: dict[str, str]) -> Problem:
    reasons = [f"{name} {too_small[name]}" for name in sorted(too_small)]
    elastic = any(group.min_count is not None for group in plan.groups)
    return Problem(
        code="gang-too-large",
        field="groups",
        text=f"do not fit on any pool at once, even when it is empty: {_first_of(reasons)}",
        fix=f"Request fewer or smaller tasks, or {'lower' if elastic else 'set'} min_count.",
    )


def _too_small(fit: PoolFit) -> str:
    """Why an empty pool, or its anchors' pool, cannot hold the gang; empty if it might."""
    for part, counts in fit.parts(fit.min_counts):
        problem = _part_too_small(part, counts)
        if problem:
            return problem
    return ""


def _part_too_small(fit: PoolFit, counts: Counts) -> str:
    """Why an empty pool cannot hold these tasks; empty if it might.

    This is a bound, not a packing: what fails is certainly impossible, what passes may still be. A spot
    pool without nodes passes, because its nodes may come back at any time.
    """
    pool, plan = fit.pool, fit.plan
    constraints = plan.shape.constraints
    for _, level in levels_named(constraints):
        if level not in pool.levels:
            return f"has no topology level {level!r}"
    nodes = pool.nodes
    if not nodes and pool.spec.market is Market.SPOT:
        return ""
    if constraints.node_labels:
        nodes = [node for node in nodes if _has_labels(node, constraints)]
    if not nodes:
        return "has no nodes"
    devices = 0
    for group, count in zip(plan.groups, counts, strict=True):
        if not count:
            continue
        problem = _group_too_large(group, count, pool, nodes, constraints)
        if problem:
            return problem
        devices += _devices_for(group, count, pool.spec)
    there = len(nodes) * pool.spec.gpus_per_node
    if devices > there:
        return f"has {there:,} GPUs, the groups need {devices:,} in total"
    return _totals_too_large(list(zip(plan.groups, counts, strict=True)), pool.spec, len(nodes))


def _has_labels(node: NodeState, constraints: Constraints) -> bool:
    return all(node.labels.get(key) == value for key, value in constraints.node_labels)


def _group_too_large(
    group: TaskGroup, count: int, pool: PoolState, nodes: list[NodeState], where: Constraints
) -> str:
    each = tasks_on_empty_node(group, pool.spec)
    most = len(nodes) * each
    text = f"has {counted(len(nodes), 'node')} for {counted(each, 'task')} of {group.name!r} each"
    if where.spread is not None:
        domains = _nodes_by_domain(pool, nodes, where.spread.level)
        most = sum(min(where.spread.max_tasks, size * each) for size in domains.values())
        text = (
            f"has {counted(len(domains), 'domain')} of {where.spread.level} for at most "
            f"{counted(where.spread.max_tasks, 'task')} each"
        )
    elif where.topology is not None and isinstance(group.gpu, WholeGpus):
        required, layers = where.topology.required, where.topology.layers
        bounds = [(required, count)] if required else []
        bounds += [(layer.level, layer.size) for layer in layers]
        for level, together in bounds:
            largest = max(_nodes_by_domain(pool, nodes, level).values()) * each
            if largest < together:
                return (
                    f"holds {counted(largest, 'task')} of {group.name!r} in its largest {level}, "
                    f"{together:,} must be together"
                )
    return "" if count <= most else f"{text}, {most:,} in total; {count:,} are needed"


def _nodes_by_domain(pool: PoolState, nodes: list[NodeState], level: str) -> Counter[object]:
    if level == NODE_LEVEL:
        return Counter(node.id for node in nodes)
    above = pool.levels[: pool.levels.index(level) + 1]
    return Counter(tuple(node.labels.get(one, "") for one in above) for node in nodes)


def tasks_on_empty_node(group: TaskGroup, spec: Pool) -> int:
    """How many tasks of one group a node could hold if nothing else ran there."""
    parts = [
        have // want
        for have, want in (
            (spec.cpu_milli, group.cpu_milli),
            (spec.memory_mib, group.memory_mib),
            (spec.disk_mib, group.disk_mib),
        )
        if want
    ]
    if group.gpu is not None:
        if isinstance(group.gpu, WholeGpus):
            parts.append(spec.gpus_per_node // group.gpu.count)
        else:
            parts.append(spec.gpus_per_node * _tasks_on_device(group.gpu, spec))
    return min(parts, default=ANY_NUMBER)


def _tasks_on_device(request: GpuRequest, spec: Pool) -> int:
    model = spec.gpu_model
    if model is None:
        return 0
    if isinstance(request, MigSlice):
        profile = model.mig.find(request.profile) if model.mig else None
        return profile.max_instances if profile else 0
    assert isinstance(request, MpsShare)
    most = min(100 // request.percent, spec.mps_client_limit)
    return min(most, model.memory_mib // request.memory_mib) if request.memory_mib else most


def _devices_for(group: TaskGroup, count: int, spec: Pool) -> int:
    """The fewest GPUs on which these tasks fit."""
    if group.gpu is None:
        return 0
    if isinstance(group.gpu, WholeGpus):
        return count * group.gpu.count
    return -(-count // max(1, _tasks_on_device(group.gpu, spec)))


def _totals_too_large(sized: list[tuple[TaskGroup, int]], spec: Pool, nodes: int) -> str:
    """Groups that fit one by one may not fit together."""
    for resource, each, wanted in (
        ("cpu", spec.cpu_milli, sum(group.cpu_milli * count for group, count in sized)),
        ("memory", spec.memory_mib, sum(group.memory_mib * count for group, count in sized)),
        ("disk", spec.disk_mib, sum(group.disk_mib * count for group, count in sized)),
    ):
        if wanted > nodes * each:
            have, want = write_amount(resource, nodes * each), write_amount(resource, wanted)
            return f"has {have} of {resource} in total, the groups need {want}"
    return ""


# -- quota -----------------------------------------------------------------------------------------


def _over_quota(request: AdmissionRequest, fits: list[PoolFit]) -> Iterator[Problem]:
    """The job needs more than the queue's quota with everything it may borrow."""
    queue, quota = request.spec.queue, request.state.quota
    reasons: dict[str, str] = {}
    for fit in fits:
        charge = fit.request(fit.min_counts)
        over = [(fr, n) for fr, n in sorted(charge.items()) if n > quota.potential(queue, fr)]
        if not over:
            return
        (flavor, resource), wanted = over[0]
        most = quota.potential(queue, (flavor, resource))
        reasons[flavor] = (
            f"{flavor}: needs {write_amount(resource, wanted)}, "
            f"may hold at most {write_amount(resource, most)}"
        )
    yield Problem(
        code="over-potential-quota",
        field="groups",
        text=(
            f"need more than the quota of queue {queue!r}, borrowing included: "
            f"{_first_of([reasons[flavor] for flavor in sorted(reasons)])}"
        ),
        fix="Request less, use a queue with more quota, or have the quota or its limits raised.",
    )

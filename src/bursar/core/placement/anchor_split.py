"""Splits mixed gangs into tasks on spot and anchors on non-spot capacity.

``anchors_percent`` of each group, rounded up, are anchors; so a launcher, a single task, always is one.
Such a gang fits on each non-spot pool alone, and on each spot pool together with a non-spot pool of the
same cluster and GPU model, but never on a spot pool alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bursar.core.nodes.pool import NODE_LEVEL
from bursar.model.fleet.fleet import PARTITION_LABEL, Pool
from bursar.model.jobs.job import WholeGpus

if TYPE_CHECKING:
    from bursar.core.placement.pool_fit import Counts, PoolFit, ShapePlan

PERCENT = 100


def split_anchors(plan: ShapePlan, counts: Counts) -> tuple[Counts, Counts]:
    """How many tasks of each group may run on spot, and how many are anchors.

    Tasks in topology layers are not separated: anchors are then whole outermost layers.
    """
    percent = plan.shape.constraints.anchors_percent
    topology = plan.shape.constraints.topology
    layer = topology.layers[0].size if topology is not None and topology.layers else 1
    anchored: list[int] = []
    for group, count in zip(plan.groups, counts, strict=True):
        wanted = -(-count * percent // PERCENT)
        size = layer if isinstance(group.gpu, WholeGpus) else 1
        anchored.append(min(count, -(-wanted // size) * size))
    rest = tuple(count - held for count, held in zip(counts, anchored, strict=True))
    return rest, tuple(anchored)


def smallest_mixed_counts(plan: ShapePlan) -> Counts | None:
    """The smallest size with a task on spot; None if there is none."""
    if any(split_anchors(plan, plan.min_counts)[0]):
        return plan.min_counts
    for index, group in enumerate(plan.groups):
        for count in range(plan.min_counts[index] + 1, group.count + 1):
            counts = (*plan.min_counts[:index], count, *plan.min_counts[index + 1 :])
            if any(split_anchors(plan, counts)[0]):
                return counts
    return None


def anchor_pairs(plan: ShapePlan, fits: Sequence[PoolFit]) -> list[tuple[PoolFit, PoolFit]]:
    """Every spot pool with every non-spot pool that may run its anchors."""
    topology = plan.shape.constraints.topology
    on_one_node = topology is not None and topology.required == NODE_LEVEL
    if on_one_node or smallest_mixed_counts(plan) is None:
        return []
    non_spot = [fit for fit in fits if not fit.is_spot]
    return [
        (fit, other)
        for fit in fits
        if fit.is_spot
        for other in non_spot
        if _may_be_mixed(fit.pool.spec, other.pool.spec)
    ]


def _may_be_mixed(one: Pool, other: Pool) -> bool:
    """Whether one gang may run in both: one engine starts it, and its tasks are equally fast.

    A Slurm job has one partition, so pools that name theirs must have one in common.
    """
    if one.cluster != other.cluster or one.gpu_model != other.gpu_model:
        return False
    named, others = (pool.labels.get(PARTITION_LABEL, "").split() for pool in (one, other))
    return not named or not others or not set(named).isdisjoint(others)

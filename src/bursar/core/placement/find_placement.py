"""Finds nodes for a single task or a gang: all tasks or none.

A single task without node constraints takes the node that the placement policy ranks best, in one pool or
in several equally good ones. Where tasks do not compete for CPU, that is the fullest node, which comes from
the pool's buckets. Everything else is placed by ``gang.py``. An allocation is occupied at once through the
journal, so that the next task and job see it; a caller that only tries rolls the journal back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bursar.core.nodes.node import NodeState
from bursar.core.nodes.node_index import Scorer
from bursar.core.nodes.pool import PoolState
from bursar.core.nodes.workload_mix import TaskShape
from bursar.core.placement.anchor_split import split_anchors
from bursar.core.placement.gang import GangPlacer
from bursar.core.placement.node_scores import best_gpu, free_milli_for, scorer_for
from bursar.core.placement.pool_fit import Counts, PoolFit, ShapePlan
from bursar.core.placement.search import (
    Allocation,
    Search,
    first_allowed,
    fits_cpu_memory_disk,
    fractional_task,
    occupy_whole,
)
from bursar.core.placement.tie_break import shuffled_ranks
from bursar.model.jobs.attempt import ShareUse
from bursar.model.jobs.job import MpsShare, TaskGroup
from bursar.model.tenants.policy import PlacementPolicy

# Enum members are resolved by a method call; module constants are cheaper.
_RANDOM: Final = PlacementPolicy.RANDOM
_REMAINING_CAPACITY: Final = PlacementPolicy.REMAINING_CAPACITY

Candidate = tuple[int, int, str, PoolFit, NodeState]
"""A node's rank, its id for ties, its fit and the node."""


def find_placement(fit: PoolFit, counts: Counts, search: Search) -> Allocation | None:
    """Place and occupy a whole gang in one pool; None, with nothing changed, if it does not fit."""
    if not fit.plan.is_single:
        if fit.anchors is not None:
            return _place_mixed(fit, counts, search)
        return GangPlacer(fit, search).place(counts)
    fullest_is_best = search.policy is _REMAINING_CAPACITY and not search.mix.crowds(fit.pool.spec)
    if fit.plan.is_plain and fullest_is_best:
        return _find_fullest(fit, search)
    choice = find_across((fit,), search)
    return None if choice is None else choice[1]


def find_across(fits: Sequence[PoolFit], search: Search) -> tuple[PoolFit, Allocation] | None:
    """Place and occupy one task on the best node of several pools.

    A failed search of a whole pool is remembered as a position in the pool's log of freed nodes; the next
    search checks only the nodes freed since.
    """
    scorer = scorer_for(search.policy, search.mix)
    shape = _shape_for(fits[0].plan, scorer)
    if search.policy is _RANDOM:
        best = _by_chance(fits, shape, search, scorer)
    else:
        best = None
        for fit in fits:
            if fit.blocked_at >= 0 and fit.blocked_at == fit.pool.position:
                continue
            candidate = _best_in(fit, shape, search, scorer)
            if candidate is not None and (best is None or candidate[:3] < best[:3]):
                best = candidate
    if best is None:
        return None
    fit, node = best[3], best[4]
    return fit, _take(fit, node, _gpu_for(node, fit.plan.groups[0], search), search)


def _place_mixed(fit: PoolFit, counts: Counts, search: Search) -> Allocation | None:
    """Place and occupy a mixed gang in both pools; None, with nothing changed, if it does not fit.

    If the gang must be in one topology domain, one domain after another is tried for both parts.
    """
    if not any(split_anchors(fit.plan, counts)[0]):
        return None
    topology = fit.plan.shape.constraints.topology
    domains: Sequence[str | None] = (None,)
    if topology is not None and topology.required is not None:
        domains = GangPlacer(fit, search).domains()
    for domain in domains:
        allocation = _place_both(fit, counts, search, domain)
        if allocation is not None:
            return allocation
    return None


def _place_both(
    fit: PoolFit, counts: Counts, search: Search, domain: str | None
) -> Allocation | None:
    assert fit.anchors is not None
    rest, anchored = split_anchors(fit.plan, counts)
    mark = search.journal.mark
    spot_placer, anchor_placer = GangPlacer(fit, search), GangPlacer(fit.anchors, search)
    on_spot = spot_placer.place_in(rest, domain, None)
    if on_spot is None:
        return None
    anchors = anchor_placer.place_in(anchored, domain, spot_placer)
    if anchors is None:
        search.lacks_anchors = True
        search.journal.roll_back(mark)
        return None
    partitions = on_spot.partitions + anchors.partitions
    return Allocation(tasks=on_spot.tasks, partitions=partitions, anchors=anchors.tasks)


def _shape_for(plan: ShapePlan, scorer: Scorer) -> TaskShape:
    """The shape of a plan's single task for a scorer, cached."""
    if plan.ranked_as is None or plan.ranked_as[0] is not scorer:
        plan.ranked_as = (scorer, scorer.key(plan.groups[0]))
    return plan.ranked_as[1]


def _find_fullest(fit: PoolFit, search: Search) -> Allocation | None:
    """Place one task with whole or no GPUs on the fullest node: the hot path."""
    pool = fit.pool
    group = fit.plan.groups[0]
    gpus = fit.plan.plain_gpus
    freed = pool.freed_since(fit.blocked_at) if fit.blocked_at >= 0 else None
    if freed is None and not search.reserved:
        node = _fullest(pool, group, pool.least_bucket(gpus, group.cpu_milli))
    elif freed is None:
        nodes = pool.tightest_first(pool.least_bucket(gpus, group.cpu_milli))
        node = first_allowed(nodes, group, search)
    else:
        node = first_allowed(iter(_fullest_of(pool, freed, gpus)), group, search)
    if node is None:
        fit.blocked_at = -1 if search.met_reservation else pool.position
        return None
    fit.blocked_at = -1
    return _take(fit, node, None, search)


def _fullest(pool: PoolState, group: TaskGroup, least: int) -> NodeState | None:
    """The fullest node that fits one task, in a pool without reservations."""
    cpu, memory, disk = group.cpu_milli, group.memory_mib, group.disk_mib
    nodes, buckets = pool.nodes, pool.buckets
    for free in range(least, len(buckets)):
        for rank in buckets[free]:
            node = nodes[rank]
            if (
                node.cpu_free_milli >= cpu
                and node.memory_free_mib >= memory
                and node.disk_free_mib >= disk
            ):
                return node
    return None


def _fullest_of(pool: PoolState, ranks: Sequence[int], gpus: int) -> list[NodeState]:
    """Those of some nodes that are open and have enough free GPUs, fullest first."""
    nodes = [pool.nodes[rank] for rank in ranks]
    suitable = [node for node in nodes if node.is_open and node.free_gpus >= gpus]
    return sorted(suitable, key=lambda node: (node.free_gpus, node.rank))


def _best_in(fit: PoolFit, shape: TaskShape, search: Search, scorer: Scorer) -> Candidate | None:
    """The best node of one pool for one task, if any has capacity."""
    pool, group = fit.pool, fit.plan.groups[0]
    nodes, index = pool.nodes, pool.index(scorer)
    freed = pool.freed_since(fit.blocked_at) if fit.blocked_at >= 0 else None
    if freed is None:
        ranks = index.best_first(shape)
    else:
        ranks = sorted(r for at in freed if (r := index.rank(nodes[at], shape)) is not None)
    met_before, search.met_reservation = search.met_reservation, False
    best: Candidate | None = None
    for score, tie, at in ranks:
        node = nodes[at]
        if _suits(node, group, search):
            best = (score, tie, node.id, fit, node)
            break
    fit.blocked_at = -1 if best is not None or search.met_reservation else pool.position
    search.met_reservation |= met_before
    return best


def _suits(node: NodeState, group: TaskGroup, search: Search) -> bool:
    """Check everything that a rank does not cover: memory, disk, reservations and GPU memory."""
    if not fits_cpu_memory_disk(node, group, 1) or not search.allows(node):
        return False
    share = group.gpu
    if not isinstance(share, MpsShare) or not share.memory_mib:
        return True
    return any(free_milli_for(node, gpu, share) for gpu in range(len(node.devices)))


def _by_chance(
    fits: Sequence[PoolFit], shape: TaskShape, search: Search, scorer: Scorer
) -> Candidate | None:
    """A random node with capacity, all equally likely."""
    group = fits[0].plan.groups[0]
    candidates = [
        (fit, rank[-1])
        for fit in fits
        if fit.blocked_at < 0 or fit.blocked_at != fit.pool.position
        for rank in fit.pool.index(scorer).best_first(shape)
    ]
    for at in shuffled_ranks(len(candidates), search.seed, search.holder):
        fit, rank_of_node = candidates[at]
        node = fit.pool.nodes[rank_of_node]
        if _suits(node, group, search):
            return 0, 0, node.id, fit, node
    for fit in fits:
        fit.blocked_at = -1 if search.met_reservation else fit.pool.position
    return None


def _gpu_for(node: NodeState, group: TaskGroup, search: Search) -> int | None:
    """The GPU for an MPS share; None for a task with whole or no GPUs."""
    share = group.gpu
    if not isinstance(share, MpsShare):
        return None
    if search.policy is not _RANDOM:
        return best_gpu(node, group, scorer_for(search.policy, search.mix))
    gpus = [gpu for gpu in range(len(node.devices)) if free_milli_for(node, gpu, share)]
    drawn = shuffled_ranks(len(gpus), search.seed, f"{search.holder}/gpu")
    return next((gpus[at] for at in drawn), None)


def _take(fit: PoolFit, node: NodeState, gpu: int | None, search: Search) -> Allocation:
    """Occupy a node with a single task; its allocation is cached if no GPU is partitioned."""
    pool, group = fit.pool, fit.plan.groups[0]
    if isinstance(group.gpu, MpsShare):
        assert gpu is not None
        if node.devices[gpu].layout:
            search.partition(pool, node, gpu, ())
        use = ShareUse(gpu=gpu, percent=group.gpu.percent, memory_mib=group.gpu.memory_mib)
        task = fractional_task(group, node, use)
        search.journal.occupy(pool, task, search.holder)
    elif node.emptied:
        task = occupy_whole(pool, node, group, 1, search)
    else:
        allocation = fit.allocation_on(node)
        if not search.is_last:
            search.journal.occupy(pool, allocation.tasks[0], search.holder)
        return allocation
    return Allocation(tasks=(task,), partitions=tuple(search.partitions))

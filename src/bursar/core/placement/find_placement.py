"""Find room for a gang: all of its tasks, or nothing.

One task without a say about its node goes where the placement policy ranks it best, over one pool or over
several that are equally good otherwise; where tasks do not crowd each other, the fullest node is that
and comes from the pool's buckets. Everything else goes to ``gang.py``. Whatever is found is occupied at once
through the journal, so that the next task and the next job see it; who does not want it rolls back.
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
    occupy,
    occupy_whole,
)
from bursar.core.placement.tie_break import shuffled_ranks
from bursar.model.jobs.attempt import ShareUse
from bursar.model.jobs.job import MpsShare, TaskGroup
from bursar.model.tenants.policy import PlacementPolicy

# Members of an enum are looked up by a method of the enum; names of this module cost nothing.
_RANDOM: Final = PlacementPolicy.RANDOM
_REMAINING_CAPACITY: Final = PlacementPolicy.REMAINING_CAPACITY

Candidate = tuple[int, int, str, PoolFit, NodeState]
"""A node's rank, its id for ties, and where it is."""


def find_placement(fit: PoolFit, counts: Counts, search: Search) -> Allocation | None:
    """Room for a whole gang in one pool, occupied; or nothing, with nothing changed."""
    if not fit.plan.is_single:
        if fit.anchors is not None:
            return _place_mixed(fit, counts, search)
        return GangPlacer(fit, search).place(counts)
    if fit.plan.is_plain and _fullest_is_best(fit.pool, search):
        return _find_fullest(fit, search)
    found = find_across((fit,), search)
    return None if found is None else found[1]


def find_across(fits: Sequence[PoolFit], search: Search) -> tuple[PoolFit, Allocation] | None:
    """Room for one task on the node that the policy likes best in any of these pools, occupied.

    A failed look at a whole pool is remembered as a position in the pool's log of freed nodes, and the
    next look starts there.
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
            found = _best_in(fit, shape, search, scorer)
            if found is not None and (best is None or found[:3] < best[:3]):
                best = found
    if best is None:
        return None
    fit, node = best[3], best[4]
    return fit, _take(fit, node, _gpu_for(node, fit.plan.groups[0], search), search)


def _place_mixed(fit: PoolFit, counts: Counts, search: Search) -> Allocation | None:
    """Room in both pools, occupied; or nothing, with nothing changed.

    Where the whole gang must be in one domain, both parts must: one domain after another is tried.
    """
    if not any(split_anchors(fit.plan, counts)[0]):
        return None
    topology = fit.plan.shape.constraints.topology
    domains: Sequence[str | None] = (None,)
    if topology is not None and topology.required is not None:
        domains = GangPlacer(fit, search).domains()
    for domain in domains:
        room = _place_both(fit, counts, search, domain)
        if room is not None:
            return room
    return None


def _place_both(
    fit: PoolFit, counts: Counts, search: Search, domain: str | None
) -> Allocation | None:
    assert fit.anchors is not None
    rest, anchored = split_anchors(fit.plan, counts)
    mark = search.journal.mark
    on_spot, steady = GangPlacer(fit, search), GangPlacer(fit.anchors, search)
    room = on_spot.place_in(rest, domain, None)
    if room is None:
        return None
    beside = steady.place_in(anchored, domain, on_spot)
    if beside is None:
        search.lacks_anchors = True
        search.journal.roll_back(mark)
        return None
    return Allocation(
        tasks=room.tasks, partitions=room.partitions + beside.partitions, anchors=beside.tasks
    )


def _shape_for(plan: ShapePlan, scorer: Scorer) -> TaskShape:
    """What the scorer looks at in the one task of a plan, worked out once."""
    if plan.ranked_as is None or plan.ranked_as[0] is not scorer:
        plan.ranked_as = (scorer, scorer.key(plan.groups[0]))
    return plan.ranked_as[1]


def _fullest_is_best(pool: PoolState, search: Search) -> bool:
    return search.policy is _REMAINING_CAPACITY and not search.mix.crowds(pool.spec)


def _find_fullest(fit: PoolFit, search: Search) -> Allocation | None:
    """Room for one task with whole GPUs, or none, on the node with the least to spare: the hot path."""
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
    """The fullest node with room for one task, where nothing is kept for anybody."""
    cpu, memory, disk = group.cpu_milli, group.memory_mib, group.disk_mib
    nodes, buckets = pool.nodes, pool.buckets
    for place in range(least, len(buckets)):
        for rank in buckets[place]:
            node = nodes[rank]
            if (
                node.cpu_free_milli >= cpu
                and node.memory_free_mib >= memory
                and node.disk_free_mib >= disk
            ):
                return node
    return None


def _fullest_of(pool: PoolState, ranks: Sequence[int], gpus: int) -> list[NodeState]:
    """Those of some nodes that are open and have so many GPUs free, fullest first."""
    some = [pool.nodes[rank] for rank in ranks]
    roomy = [node for node in some if node.is_open and node.free_gpus >= gpus]
    return sorted(roomy, key=lambda node: (node.free_gpus, node.rank))


def _best_in(fit: PoolFit, shape: TaskShape, search: Search, scorer: Scorer) -> Candidate | None:
    """The best node of one pool, if it has any with room."""
    pool, group = fit.pool, fit.plan.groups[0]
    nodes, index = pool.nodes, pool.index(scorer)
    freed = pool.freed_since(fit.blocked_at) if fit.blocked_at >= 0 else None
    if freed is None:
        ranks = index.best_first(shape)
    else:
        ranks = sorted(r for at in freed if (r := index.rank(nodes[at], shape)) is not None)
    met_before, search.met_reservation = search.met_reservation, False
    found: Candidate | None = None
    for score, tie, at in ranks:
        node = nodes[at]
        if _suits(node, group, search):
            found = (score, tie, node.id, fit, node)
            break
    fit.blocked_at = -1 if found is not None or search.met_reservation else pool.position
    search.met_reservation |= met_before
    return found


def _suits(node: NodeState, group: TaskGroup, search: Search) -> bool:
    """Everything that a rank does not look at."""
    if not fits_cpu_memory_disk(node, group, 1) or not search.allows(node):
        return False
    share = group.gpu
    if not isinstance(share, MpsShare) or not share.memory_mib:
        return True
    return any(free_milli_for(node, gpu, share) for gpu in range(len(node.devices)))


def _by_chance(
    fits: Sequence[PoolFit], shape: TaskShape, search: Search, scorer: Scorer
) -> Candidate | None:
    """Any node with room, all with the same chance."""
    group = fits[0].plan.groups[0]
    roomy = [
        (fit, rank[-1])
        for fit in fits
        if fit.blocked_at < 0 or fit.blocked_at != fit.pool.position
        for rank in fit.pool.index(scorer).best_first(shape)
    ]
    for at in shuffled_ranks(len(roomy), search.seed, search.holder):
        fit, rank_of_node = roomy[at]
        node = fit.pool.nodes[rank_of_node]
        if _suits(node, group, search):
            return 0, 0, node.id, fit, node
    for fit in fits:
        fit.blocked_at = -1 if search.met_reservation else fit.pool.position
    return None


def _gpu_for(node: NodeState, group: TaskGroup, search: Search) -> int | None:
    """The GPU for a share; None for a task that takes none or whole ones."""
    share = group.gpu
    if not isinstance(share, MpsShare):
        return None
    if search.policy is not _RANDOM:
        return best_gpu(node, group, scorer_for(search.policy, search.mix))
    gpus = [gpu for gpu in range(len(node.devices)) if free_milli_for(node, gpu, share)]
    drawn = shuffled_ranks(len(gpus), search.seed, f"{search.holder}/gpu")
    return next((gpus[at] for at in drawn), None)


def _take(fit: PoolFit, node: NodeState, gpu: int | None, search: Search) -> Allocation:
    """Occupy a node with the one task; the values that say so are shared where nothing has to be cut."""
    pool, group = fit.pool, fit.plan.groups[0]
    if isinstance(group.gpu, MpsShare):
        assert gpu is not None
        if node.devices[gpu].layout:
            search.partition(pool, node, gpu, ())
        use = ShareUse(gpu=gpu, percent=group.gpu.percent, memory_mib=group.gpu.memory_mib)
        task = occupy(pool, fractional_task(group, node, use), search)
    elif node.emptied:
        task = occupy_whole(pool, node, group, 1, search)
    else:
        room = fit.allocation_on(node)
        if not search.is_last:
            search.journal.occupy(pool, room.tasks[0], search.holder)
        return room
    return Allocation(tasks=(task,), partitions=tuple(search.partitions))

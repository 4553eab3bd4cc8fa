"""Find room for a gang in one pool: all of its tasks, or nothing.

The common case, one task with whole GPUs, is answered from the pool's buckets; everything else goes to
``gang.py``. Whatever is found is occupied at once through the journal, so that the next task and the
next job see it; who does not want it rolls back.
"""

from __future__ import annotations

from bursar.core.gang import GangPlacer
from bursar.core.search import Room, Search, first_allowed, pick_node, settle
from bursar.core.shape import Counts, PoolFit
from bursar.model.policy import PlacementPolicy


def find_room(fit: PoolFit, counts: Counts, search: Search) -> Room | None:
    """Room for a whole gang in one pool, occupied; or nothing, with nothing changed."""
    if fit.plan.is_plain:
        return _find_plain(fit, search)
    return GangPlacer(fit, search).place(counts)


def _find_plain(fit: PoolFit, search: Search) -> Room | None:
    """Room for one task with whole GPUs, or none, and no say about its node: the hot path.

    A failed look at the whole pool is remembered as a position in the pool's log of freed nodes, and
    the next look starts there.
    """
    pool = fit.pool
    group = fit.plan.groups[0]
    gpus = fit.plan.plain_gpus
    freed = pool.freed_since(fit.blocked_at) if fit.blocked_at >= 0 else None
    if freed is None and gpus and search.policy is PlacementPolicy.FRAGMENTATION_GRADIENT:
        node = first_allowed(pool.fragments(search.mix).best_first(group), group, search)
    elif freed is None:
        least = pool.least_bucket(gpus, group.cpu_milli)
        node = pick_node(pool.tightest_first(least), group, search)
    else:
        nodes = [pool.nodes[rank] for rank in freed]
        roomy = [node for node in nodes if node.is_open and node.free_gpus >= gpus]
        roomy.sort(key=lambda node: (node.free_gpus, node.rank))
        node = pick_node(iter(roomy), group, search)
    if node is None:
        fit.blocked_at = -1 if search.met_reservation else pool.position
        return None
    fit.blocked_at = -1
    task = settle(pool, node, group, 1, search)
    return Room(tasks=(task,), cuts=tuple(search.cuts))

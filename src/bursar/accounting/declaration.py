"""Which nodes there are after a new declaration of the fleet.

What ``core`` does when a declaration takes effect, in terms of nodes alone: both must agree on which node
exists, or hours would be billed that nobody could use.
"""

from __future__ import annotations

from collections.abc import Collection

from bursar.model.fleet import Fleet, Node, Pool


def nodes_after(before: Fleet | None, after: Fleet, there: Collection[Node]) -> dict[str, str]:
    """Node to pool, for all that exist from now on; ``there`` are those that existed so far.

    A declared node that was lost stays lost while its declaration stays the same. A node that joined
    later without being declared stays as long as its pool does.
    """
    found = {node.id: node.pool for node in after.nodes}
    known = {node.id for node in there}
    if before is None:
        return found
    declared = {node.id for node in before.nodes}
    pools = {pool.name for pool in after.pools}
    for name in declared & found.keys() - known - _reshaped(before, after):
        del found[name]
    for node in there:
        if node.id not in declared and node.id not in found and node.pool in pools:
            found[node.id] = node.pool
    return dict(sorted(found.items()))


def _reshaped(before: Fleet, after: Fleet) -> set[str]:
    """Declared nodes that moved, or are of another kind, or have less of something."""
    old_pools = {pool.name: pool for pool in before.pools}
    new_pools = {pool.name: pool for pool in after.pools}
    new_homes = {node.id: node.pool for node in after.nodes}
    return {
        node.id
        for node in before.nodes
        if new_homes.get(node.id) != node.pool
        or not _still_holds(old_pools[node.pool], new_pools[node.pool])
    }


def _still_holds(old: Pool, new: Pool) -> bool:
    return (
        (old.cluster, old.market, old.gpu_model) == (new.cluster, new.market, new.gpu_model)
        and old.gpus_per_node <= new.gpus_per_node
        and old.cpu_milli <= new.cpu_milli
        and old.memory_mib <= new.memory_mib
        and old.disk_mib <= new.disk_mib
        and (new.mig_allowed or not old.mig_allowed)
        and old.mps_client_limit <= new.mps_client_limit
    )

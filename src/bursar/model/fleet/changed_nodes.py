"""Nodes that a new fleet declaration removes, moves or shrinks; scheduling and billing share it."""

from __future__ import annotations

from bursar.model.fleet.fleet import Fleet, Pool


def changed_nodes(before: Fleet, after: Fleet) -> set[str]:
    """Declared nodes that are gone, moved, of another kind, or have less of something."""
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

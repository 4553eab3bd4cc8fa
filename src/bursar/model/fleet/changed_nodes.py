"""What a new fleet declaration does to nodes; scheduling and billing share it."""

from __future__ import annotations

from collections.abc import Collection

from bursar.model.fleet.fleet import Fleet, Node, Pool


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


def nodes_after(before: Fleet | None, after: Fleet, existing: Collection[Node]) -> dict[str, str]:
    """The pool of each node that exists after the declaration, by node id.

    A declared node that was lost stays lost while its declaration is unchanged. A node that joined without
    being declared stays as long as its pool does. ``core`` applies the same rule to its state: both must
    agree on which nodes exist, or the ledger would bill hours of nodes that no job can use.
    """
    pool_of_node = {node.id: node.pool for node in after.nodes}
    if before is None:
        return pool_of_node
    existing_ids = {node.id for node in existing}
    declared = {node.id for node in before.nodes}
    pools = {pool.name for pool in after.pools}
    for name in declared & pool_of_node.keys() - existing_ids - changed_nodes(before, after):
        del pool_of_node[name]
    for node in existing:
        if node.id not in declared and node.id not in pool_of_node and node.pool in pools:
            pool_of_node[node.id] = node.pool
    return dict(sorted(pool_of_node.items()))


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

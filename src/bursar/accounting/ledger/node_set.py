"""The nodes that exist after a new declaration of the fleet.

``core`` applies the same rule to its state: both must agree on which nodes exist, or the ledger would bill
hours of nodes that no job can use.
"""

from __future__ import annotations

from collections.abc import Collection

from bursar.model.fleet.changed_nodes import changed_nodes
from bursar.model.fleet.fleet import Fleet, Node


def nodes_after(before: Fleet | None, after: Fleet, existing: Collection[Node]) -> dict[str, str]:
    """The pool of each node that exists after the declaration, by node id.

    A declared node that was lost stays lost while its declaration is unchanged. A node that joined without
    being declared stays as long as its pool does.
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

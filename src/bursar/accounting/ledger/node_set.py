"""Which nodes there are after a new declaration of the fleet.

What ``core`` does when a declaration takes effect, in terms of nodes alone: both must agree on which node
exists, or hours would be billed that nobody could use.
"""

from __future__ import annotations

from collections.abc import Collection

from bursar.model.fleet.changed_nodes import changed_nodes
from bursar.model.fleet.fleet import Fleet, Node


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
    for name in declared & found.keys() - known - changed_nodes(before, after):
        del found[name]
    for node in there:
        if node.id not in declared and node.id not in found and node.pool in pools:
            found[node.id] = node.pool
    return dict(sorted(found.items()))

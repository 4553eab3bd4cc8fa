"""Everything in a state as one value, to check that a query changed nothing."""

from __future__ import annotations

from bursar.core.cycle import decide
from bursar.core.state.fleet_state import FleetState


def observable_state(state: FleetState, now_ms: int) -> tuple[object, ...]:
    """All resources, charges, claims and waiting jobs, and the decisions that would be made now."""
    return (
        _nodes(state),
        {
            (name, fr): state.quota.usage(name, fr)
            for name in state.quota.names()
            for fr in sorted(state.limited)
        },
        {
            key: [record.id for record in backlog.jobs()]
            for key, backlog in state.backlogs.by_key.items()
        },
        {key: backlog.count for key, backlog in state.backlogs.by_key.items()},
        {
            record.id: (record.spec, record.state, record.rank, record.preemptions, record.unmet)
            for record in state.jobs.values()
        },
        sorted(state.claims),
        sorted(state.blocked),
        decide(state, now_ms),
    )


def _nodes(state: FleetState) -> list[object]:
    found: list[object] = []
    for name, pool in state.pools.items():
        found.append((name, tuple(pool.ends), [list(bucket) for bucket in pool.buckets]))
        for node in pool.nodes:
            tags = {tag: count for tag, count in node.tags.items() if count}
            free = (node.cpu_free_milli, node.memory_free_mib, node.disk_free_mib, node.free_gpus)
            masks = (node.blank, node.emptied, node.up, node.closed_for)
            layouts = [device.layout for device in node.devices]
            found.append((node.id, free, masks, dict(node.holders), tags, layouts))
    return found

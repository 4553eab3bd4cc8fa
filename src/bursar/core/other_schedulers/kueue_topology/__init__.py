"""Kueue's topology-aware scheduling: leaders, affinity, even placement, replaced nodes."""

from bursar.core.other_schedulers.kueue_topology.place import place
from bursar.core.other_schedulers.kueue_topology.reassign import (
    find_stale,
    grow,
    merge,
    replace_lost,
    shrink,
)
from bursar.core.other_schedulers.kueue_topology.request import KueueTopologyRequest, LeafCounts
from bursar.core.other_schedulers.kueue_topology.result import (
    KueueAssignment,
    KueueDomainCount,
    Revision,
)

__all__ = [
    "KueueAssignment",
    "KueueDomainCount",
    "KueueTopologyRequest",
    "LeafCounts",
    "Revision",
    "find_stale",
    "grow",
    "merge",
    "place",
    "replace_lost",
    "shrink",
]

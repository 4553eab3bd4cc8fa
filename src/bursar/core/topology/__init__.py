"""Where in the racks and blocks a gang runs. See README.md for the words and the flow."""

from bursar.core.topology.outcome import (
    Assignment,
    DomainCount,
    MissReason,
    Revision,
    TopologyMiss,
)
from bursar.core.topology.place import place
from bursar.core.topology.request import LeafCounts, SliceLayer, TopologyRequest
from bursar.core.topology.revise import find_stale, grow, merge, replace_lost, shrink
from bursar.core.topology.tree import Leaf, TopologyTree

__all__ = [
    "Assignment",
    "DomainCount",
    "Leaf",
    "LeafCounts",
    "MissReason",
    "Revision",
    "SliceLayer",
    "TopologyMiss",
    "TopologyRequest",
    "TopologyTree",
    "find_stale",
    "grow",
    "merge",
    "place",
    "replace_lost",
    "shrink",
]

"""Places gangs in the racks and blocks of a topology. See README.md."""

from bursar.core.topology.place import place
from bursar.core.topology.request import TopologyRequest
from bursar.core.topology.result import Assignment, DomainCount, MissReason, TopologyMiss
from bursar.core.topology.tree import Leaf, TopologyTree

__all__ = [
    "Assignment",
    "DomainCount",
    "Leaf",
    "MissReason",
    "TopologyMiss",
    "TopologyRequest",
    "TopologyTree",
    "place",
]

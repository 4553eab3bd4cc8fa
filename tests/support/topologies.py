"""A small topology, and gangs on it that Bursar and Kueue must place equally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bursar.core.topology.tree import Leaf, TopologyTree
from bursar.model.jobs.job import SliceLayer

LEVELS = ("block", "rack", "host")


def grow_tree(*paths: str) -> TopologyTree:
    """A tree from paths such as ``"b1/r1/x1"``; the host names the leaf."""
    leaves = [Leaf(id=path.split("/")[-1], path=tuple(path.split("/"))) for path in paths]
    return TopologyTree(LEVELS, leaves)


TWO_BLOCKS = grow_tree(
    "b1/r1/x1", "b1/r1/x2", "b1/r2/x3", "b1/r2/x4", "b2/r3/x5", "b2/r3/x6", "b2/r4/x7"
)
TWO_BLOCKS_SHUFFLED = grow_tree(
    "b2/r4/x7", "b2/r3/x6", "b1/r2/x3", "b1/r1/x1", "b2/r3/x5", "b1/r2/x4", "b1/r1/x2"
)
"""The same topology from leaves in another order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementCase:
    """The keywords of a request, the tasks that fit on each host, and the expected placement."""

    request: dict[str, Any]
    free: dict[str, int]
    placed: str


RACKS_OF_FOUR = (SliceLayer(level="rack", size=4), SliceLayer(level="host", size=2))

PLACEMENT_CASES = {
    "a required rack is the one with the least to spare": PlacementCase(
        request={"count": 3, "required": "rack"},
        free={"x1": 2, "x2": 2, "x3": 2, "x4": 1, "x5": 4, "x6": 4},
        placed="x3:2 x4:1",
    ),
    "a preferred rack that is too small widens to the block": PlacementCase(
        request={"count": 5, "preferred": "rack"},
        free={"x1": 2, "x2": 2, "x3": 2, "x5": 3},
        placed="x1:2 x2:2 x3:1",
    ),
    "a preferred block that is too small spreads over the roomiest racks of several": PlacementCase(
        request={"count": 8, "preferred": "block"},
        free={"x1": 2, "x2": 2, "x3": 2, "x5": 3},
        placed="x1:2 x2:2 x3:1 x5:3",
    ),
    "an unconstrained gang fills the fullest hosts first": PlacementCase(
        request={"count": 4},
        free={"x1": 3, "x3": 1, "x5": 2, "x7": 0},
        placed="x1:1 x3:1 x5:2",
    ),
    "an unconstrained gang that fits one host takes the fullest such host": PlacementCase(
        request={"count": 2},
        free={"x1": 3, "x3": 1, "x5": 2},
        placed="x5:2",
    ),
    "slices are not torn over racks": PlacementCase(
        request={"count": 6, "required": "block", "layers": (SliceLayer(level="rack", size=3),)},
        free={"x1": 2, "x2": 3, "x3": 1, "x4": 1, "x5": 2, "x6": 1, "x7": 3},
        placed="x5:2 x6:1 x7:3",
    ),
    "inner layers keep pairs on one host": PlacementCase(
        request={"count": 4, "required": "block", "layers": RACKS_OF_FOUR},
        free={"x1": 3, "x2": 1, "x3": 2, "x4": 3, "x5": 1, "x6": 1},
        placed="x3:2 x4:2",
    ),
}

"""Gangs on small topologies whose best placement is obvious."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bursar.core.topology.place import place
from bursar.core.topology.request import TopologyRequest
from bursar.core.topology.result import Assignment, MissReason, TopologyMiss
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


def leaf_counts(**tasks: int) -> dict[str, int]:
    return tasks


def brief(assignment: Assignment | TopologyMiss) -> str:
    """``"x1:2 x2:1"``: two tasks on x1, one on x2."""
    assert not isinstance(assignment, TopologyMiss), str(assignment)
    return " ".join(f"{part.leaf}:{part.tasks}" for part in assignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    request: TopologyRequest
    free: dict[str, int]
    placed: str


RACKS_OF_FOUR = (SliceLayer(level="rack", size=4), SliceLayer(level="host", size=2))

SCENARIOS = {
    "a required rack is the one with the least to spare": Scenario(
        request=TopologyRequest(count=3, required="rack"),
        free=leaf_counts(x1=2, x2=2, x3=2, x4=1, x5=4, x6=4),
        placed="x3:2 x4:1",
    ),
    "a preferred rack that is too small widens to the block": Scenario(
        request=TopologyRequest(count=5, preferred="rack"),
        free=leaf_counts(x1=2, x2=2, x3=2, x5=3),
        placed="x1:2 x2:2 x3:1",
    ),
    "a preferred block that is too small spreads over the roomiest racks of several": Scenario(
        request=TopologyRequest(count=8, preferred="block"),
        free=leaf_counts(x1=2, x2=2, x3=2, x5=3),
        placed="x1:2 x2:2 x3:1 x5:3",
    ),
    "an unconstrained gang fills the fullest hosts first": Scenario(
        request=TopologyRequest(count=4),
        free=leaf_counts(x1=3, x3=1, x5=2, x7=0),
        placed="x1:1 x3:1 x5:2",
    ),
    "an unconstrained gang that fits one host takes the fullest such host": Scenario(
        request=TopologyRequest(count=2),
        free=leaf_counts(x1=3, x3=1, x5=2),
        placed="x5:2",
    ),
    "slices are not torn over racks": Scenario(
        request=TopologyRequest(
            count=6, required="block", layers=(SliceLayer(level="rack", size=3),)
        ),
        free=leaf_counts(x1=2, x2=3, x3=1, x4=1, x5=2, x6=1, x7=3),
        placed="x5:2 x6:1 x7:3",
    ),
    "inner layers keep pairs on one host": Scenario(
        request=TopologyRequest(count=4, required="block", layers=RACKS_OF_FOUR),
        free=leaf_counts(x1=3, x2=1, x3=2, x4=3, x5=1, x6=1),
        placed="x3:2 x4:2",
    ),
}


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_place(sentence: str) -> None:
    scenario = SCENARIOS[sentence]
    assert brief(place(TWO_BLOCKS, scenario.request, scenario.free)) == scenario.placed


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_the_order_of_the_leaves_does_not_matter(sentence: str) -> None:
    scenario = SCENARIOS[sentence]
    paths = ("b2/r4/x7", "b2/r3/x6", "b1/r2/x3", "b1/r1/x1", "b2/r3/x5", "b1/r2/x4", "b1/r1/x2")
    free = dict(reversed(scenario.free.items()))
    assert brief(place(grow_tree(*paths), scenario.request, free)) == scenario.placed


MISSES = {
    "the best rack holds three of five": (
        TopologyRequest(count=5, required="rack"),
        TopologyMiss(
            reason=MissReason.NOT_ENOUGH_CAPACITY, level="rack", slices_wanted=5, slices_fit=3
        ),
    ),
    "all blocks together hold six of seven": (
        TopologyRequest(count=7, preferred="rack"),
        TopologyMiss(
            reason=MissReason.NOT_ENOUGH_CAPACITY, level="block", slices_wanted=7, slices_fit=6
        ),
    ),
    "there are no zones": (
        TopologyRequest(count=1, required="zone"),
        TopologyMiss(reason=MissReason.UNKNOWN_LEVEL, level="zone", slices_wanted=1),
    ),
    "a slice wider than the whole cannot be": (
        TopologyRequest(count=2, required="rack", layers=(SliceLayer(level="block", size=2),)),
        TopologyMiss(
            reason=MissReason.LAYERS_DISAGREE, level="block", slices_wanted=1, slice_size=2
        ),
    ),
    "five tasks are not pairs": (
        TopologyRequest(count=5, required="rack", layers=(SliceLayer(level="host", size=2),)),
        TopologyMiss(
            reason=MissReason.LAYERS_DISAGREE, level="host", slices_wanted=2, slice_size=2
        ),
    ),
}


@pytest.mark.parametrize("sentence", MISSES)
def test_a_miss_reports_how_much_is_missing(sentence: str) -> None:
    request, miss = MISSES[sentence]
    assert place(TWO_BLOCKS, request, leaf_counts(x1=2, x2=1, x5=3)) == miss
    assert str(miss)


def test_an_empty_topology_has_no_domains() -> None:
    missed = place(grow_tree(), TopologyRequest(count=1, required="rack"), {})
    assert isinstance(missed, TopologyMiss)
    assert missed.reason is MissReason.NO_DOMAINS


def test_two_leaves_cannot_share_a_path() -> None:
    with pytest.raises(ValueError, match="share a path"):
        TopologyTree(("host",), [Leaf(id="x1", path=("a",)), Leaf(id="x2", path=("a",))])

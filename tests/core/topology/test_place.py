"""Gangs on small topologies whose best placement is obvious."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bursar.core.topology.place import place
from bursar.core.topology.request import TopologyRequest
from bursar.core.topology.result import Assignment, MissReason, TopologyMiss
from bursar.core.topology.tree import Leaf, TopologyTree
from bursar.model.jobs.job import SliceLayer
from tests.support.topologies import (
    PLACEMENT_CASES,
    TWO_BLOCKS,
    TWO_BLOCKS_SHUFFLED,
    grow_tree,
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


SCENARIOS = {
    sentence: Scenario(request=TopologyRequest(**case.request), free=case.free, placed=case.placed)
    for sentence, case in PLACEMENT_CASES.items()
}


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_place(sentence: str) -> None:
    scenario = SCENARIOS[sentence]
    assert brief(place(TWO_BLOCKS, scenario.request, scenario.free)) == scenario.placed


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_the_order_of_the_leaves_does_not_matter(sentence: str) -> None:
    scenario = SCENARIOS[sentence]
    free = dict(reversed(scenario.free.items()))
    assert brief(place(TWO_BLOCKS_SHUFFLED, scenario.request, free)) == scenario.placed


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

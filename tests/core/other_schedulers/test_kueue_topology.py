"""Kueue's placement on small topologies, with leaders, affinity, even spread and lost nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pytest

from bursar.core.other_schedulers.kueue_topology.place import (
    KueueAssignment,
    KueueDomainCount,
    place,
)
from bursar.core.other_schedulers.kueue_topology.reassign import (
    Revision,
    grow,
    replace_lost,
    shrink,
)
from bursar.core.other_schedulers.kueue_topology.request import KueueTopologyRequest, LeafCounts
from bursar.core.topology.place import place as place_as_bursar
from bursar.core.topology.request import TopologyRequest
from bursar.core.topology.result import MissReason, TopologyMiss
from bursar.model.jobs.job import SliceLayer
from tests.support.topologies import (
    PLACEMENT_CASES,
    TWO_BLOCKS,
    TWO_BLOCKS_SHUFFLED,
    grow_tree,
)


def leaf_counts(**tasks: int) -> dict[str, LeafCounts]:
    return {leaf: LeafCounts(tasks=count) for leaf, count in tasks.items()}


def brief(assignment: KueueAssignment | TopologyMiss) -> str:
    """``"x1:2 x2:1+L"``: two tasks on x1, one and the leader on x2."""
    assert not isinstance(assignment, TopologyMiss), str(assignment)
    return " ".join(f"{part.leaf}:{part.tasks}" + "+L" * part.leaders for part in assignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    request: KueueTopologyRequest
    free: dict[str, LeafCounts]
    placed: str


SCENARIOS = {
    sentence: Scenario(
        request=KueueTopologyRequest(**case.request),
        free=leaf_counts(**case.free),
        placed=case.placed,
    )
    for sentence, case in PLACEMENT_CASES.items()
} | {
    "an unconstrained gang may pack instead": Scenario(
        request=KueueTopologyRequest(count=4, least_free=False),
        free=leaf_counts(x1=3, x3=1, x5=2),
        placed="x1:3 x3:1",
    ),
    "affinity outweighs a tighter fit": Scenario(
        request=KueueTopologyRequest(count=2, required="host"),
        free=leaf_counts(x1=2) | {"x5": LeafCounts(tasks=6, affinity=10)},
        placed="x5:2",
    ),
    "a balanced gang is spread evenly": Scenario(
        request=KueueTopologyRequest(count=6, preferred="rack", balanced=True),
        free=leaf_counts(x1=4, x2=4),
        placed="x1:3 x2:3",
    ),
    "a balanced gang leaves out hosts that would get less than an even part": Scenario(
        request=KueueTopologyRequest(count=8, preferred="block", balanced=True),
        free=leaf_counts(x1=5, x2=1, x3=4, x4=1),
        placed="x1:4 x3:4",
    ),
    "the leader goes where it costs the workers least": Scenario(
        request=KueueTopologyRequest(count=4, required="rack", leaders=1),
        free={
            "x1": LeafCounts(tasks=2, tasks_with_leader=1, leaders=1),
            "x2": LeafCounts(tasks=2, tasks_with_leader=2, leaders=1),
        },
        placed="x1:2 x2:2+L",
    ),
    "the leader may run where no worker fits": Scenario(
        request=KueueTopologyRequest(count=2, required="rack", leaders=1),
        free={
            "x1": LeafCounts(tasks=0, tasks_with_leader=0, leaders=1),
            "x2": LeafCounts(tasks=2),
        },
        placed="x1:0+L x2:2",
    ),
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
        KueueTopologyRequest(count=5, required="rack"),
        TopologyMiss(
            reason=MissReason.NOT_ENOUGH_CAPACITY, level="rack", slices_wanted=5, slices_fit=3
        ),
    ),
    "all blocks together hold six of seven": (
        KueueTopologyRequest(count=7, preferred="rack"),
        TopologyMiss(
            reason=MissReason.NOT_ENOUGH_CAPACITY, level="block", slices_wanted=7, slices_fit=6
        ),
    ),
    "no host takes the leader": (
        KueueTopologyRequest(count=1, required="rack", leaders=1),
        TopologyMiss(
            reason=MissReason.NO_CAPACITY_FOR_LEADER, level="rack", slices_wanted=1, slices_fit=3
        ),
    ),
    "there are no zones": (
        KueueTopologyRequest(count=1, required="zone"),
        TopologyMiss(reason=MissReason.UNKNOWN_LEVEL, level="zone", slices_wanted=1),
    ),
    "a slice wider than the whole cannot be": (
        KueueTopologyRequest(count=2, required="rack", layers=(SliceLayer(level="block", size=2),)),
        TopologyMiss(
            reason=MissReason.LAYERS_DISAGREE, level="block", slices_wanted=1, slice_size=2
        ),
    ),
    "five tasks are not pairs": (
        KueueTopologyRequest(count=5, required="rack", layers=(SliceLayer(level="host", size=2),)),
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
    missed = place(grow_tree(), KueueTopologyRequest(count=1, required="rack"), {})
    assert isinstance(missed, TopologyMiss)
    assert missed.reason is MissReason.NO_DOMAINS


def assigned(**tasks: int) -> KueueAssignment:
    return tuple(KueueDomainCount(leaf=leaf, tasks=count) for leaf, count in tasks.items())


def test_a_lost_node_is_replaced_inside_the_required_block() -> None:
    request = KueueTopologyRequest(count=4, required="block")
    revised = replace_lost(
        TWO_BLOCKS, request, assigned(x1=2, x2=2), {"x2"}, leaf_counts(x1=0, x3=2, x5=4)
    )
    assert isinstance(revised, Revision)
    assert (brief(revised.assignment), brief(revised.added)) == ("x1:2 x3:2", "x3:2")


def test_a_broken_slice_is_replaced_in_its_rack() -> None:
    request = KueueTopologyRequest(
        count=4, required="block", layers=(SliceLayer(level="rack", size=2),)
    )
    before = assigned(x1=1, x2=1, x3=1, x4=1)
    replaced = replace_lost(TWO_BLOCKS, request, before, {"x3"}, leaf_counts(x2=1, x4=1))
    assert isinstance(replaced, Revision)
    assert brief(replaced.assignment) == "x1:1 x2:1 x4:2"
    missed = replace_lost(TWO_BLOCKS, request, before, {"x3"}, leaf_counts(x2=1))
    assert isinstance(missed, TopologyMiss)


def test_a_second_lost_leaf_prevents_the_replacement() -> None:
    request = KueueTopologyRequest(count=2, required="block")
    missed = replace_lost(TWO_BLOCKS, request, assigned(x1=1, gone=1), {"x1"}, leaf_counts(x2=2))
    assert isinstance(missed, TopologyMiss)
    assert (missed.reason, missed.leaf) == (MissReason.STALE_LEAF, "gone")


def test_growing_preserves_placed_tasks_and_shrinking_removes_the_last() -> None:
    before = assigned(x1=1, x5=2)
    grown = grow(TWO_BLOCKS, KueueTopologyRequest(count=5), before, leaf_counts(x1=1, x3=1))
    assert isinstance(grown, Revision)
    assert brief(grown.assignment) == "x1:2 x3:1 x5:2"
    assert brief(shrink(grown.assignment, 4)) == "x1:2 x3:1 x5:1"
    assert shrink(before, 1) == (replace(before[0], tasks=1),)


@pytest.mark.parametrize("seed", range(300))
def test_without_kueues_own_features_bursar_places_the_same(seed: int) -> None:
    draw = Random(seed)
    blocks, racks, hosts = draw.randint(1, 3), draw.randint(1, 3), draw.randint(1, 4)
    paths = [
        f"b{b}/r{b}{r}/x{b}{r}{h}"
        for b in range(blocks)
        for r in range(racks)
        for h in range(hosts)
        if draw.random() < 0.9
    ]
    tree = grow_tree(*paths)
    free = {path.split("/")[-1]: draw.randint(0, 6) for path in paths}
    layers = draw.choice(
        [
            (),
            (SliceLayer(level="host", size=2),),
            (SliceLayer(level="rack", size=draw.choice((2, 4))),),
            (SliceLayer(level="rack", size=4), SliceLayer(level="host", size=2)),
            (SliceLayer(level="block", size=4), SliceLayer(level="rack", size=2)),
        ]
    )
    required, preferred = draw.choice(
        [
            (None, None),
            (None, "rack"),
            (None, "block"),
            ("rack", None),
            ("block", None),
            ("host", None),
        ]
    )
    for count in (1, 2, 4, 6, 8, 12, 20):
        terms = {"count": count, "required": required, "preferred": preferred, "layers": layers}
        ours = place_as_bursar(tree, TopologyRequest(**terms), free)
        theirs = place(tree, KueueTopologyRequest(**terms), leaf_counts(**free))
        if isinstance(theirs, TopologyMiss):
            assert ours == theirs
        else:
            assert not isinstance(ours, TopologyMiss), str(ours)
            assert [(one.leaf, one.tasks) for one in ours] == [
                (one.leaf, one.tasks) for one in theirs
            ]

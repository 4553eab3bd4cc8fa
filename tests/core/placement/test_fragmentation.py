"""Fragmentation of a node for a mix of tasks, and the placement that adds least of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.catalog.gpu_models import find_gpu_model
from bursar.core.nodes.node import NodeState
from bursar.core.nodes.node_index import NodeIndex
from bursar.core.nodes.workload_mix import (
    MOST_SHAPES,
    REMEMBERED_TASKS,
    WorkloadMix,
    free_on,
    shape_of,
)
from bursar.core.placement.fragmentation import Fragmentation
from bursar.core.placement.node_scores import best_gpu, free_milli_for
from bursar.model.fleet.fleet import Market, Node, Pool
from bursar.model.fleet.gpu import MigInstance
from bursar.model.jobs.attempt import ShareUse, Task
from bursar.model.jobs.job import GpuRequest, MigSlice, MpsShare, TaskGroup, WholeGpus

A100 = find_gpu_model("a100-40gb")
CPUS = 1_000
GIB = 1_024


def make_node(
    name: str = "n0", *, gpus: int = 4, cpus: int = 64, memory_gib: int = 256
) -> NodeState:
    pool = Pool(
        name="pool",
        cluster="here",
        market=Market.OWNED,
        gpu_model=A100,
        gpus_per_node=gpus,
        cpu_milli=cpus * CPUS,
        memory_mib=memory_gib * GIB,
        node_micro_usd_per_hour=1,
    )
    return NodeState(Node(id=name, pool="pool"), pool)


def fragmentation_milli(node: NodeState, mix: WorkloadMix) -> int:
    """The expected free milli-GPU of a node that a task of the mix cannot use."""
    return Fragmentation(mix).fragments(free_on(node)) // mix.weight if mix.weight else 0


def choose_gpu_for_share(node: NodeState, group: TaskGroup, mix: WorkloadMix) -> int | None:
    return best_gpu(node, group, Fragmentation(mix))


def least_fragmenting(
    nodes: Iterable[NodeState], group: TaskGroup, mix: WorkloadMix
) -> NodeState | None:
    """The result without an index, by a scan of all nodes."""
    scorer = Fragmentation(mix)
    found = [
        (rank, node.id, node)
        for node in nodes
        if (rank := scorer.rank(free_on(node), scorer.key(group))) is not None
        and _has_memory(node, group)
    ]
    return min(found)[-1] if found else None


def _has_memory(node: NodeState, group: TaskGroup) -> bool:
    share = group.gpu
    if not isinstance(share, MpsShare):
        return True
    return any(free_milli_for(node, gpu, share) for gpu in range(len(node.devices)))


def make_pool(*nodes: NodeState) -> list[NodeState]:
    for rank, node in enumerate(nodes):
        node.rank = rank
    return list(nodes)


def whole(
    gpus: int, *, cpus: int = 4, memory_gib: int = 0, models: tuple[str, ...] = ()
) -> TaskGroup:
    return _group(WholeGpus(count=gpus, models=models), cpus, memory_gib)


def share(percent: int, *, cpus: int = 4, gpu_memory_mib: int = 0) -> TaskGroup:
    return _group(MpsShare(percent=percent, memory_mib=gpu_memory_mib), cpus, 0)


def _group(gpu: GpuRequest | None, cpus: int, memory_gib: int) -> TaskGroup:
    return TaskGroup(gpu=gpu, cpu_milli=cpus * CPUS, memory_mib=memory_gib * GIB)


def mix_of(*groups: tuple[TaskGroup, int]) -> WorkloadMix:
    mix = WorkloadMix()
    for group, tasks in groups:
        mix.add(group, tasks)
    return mix


def start(node: NodeState, group: TaskGroup, *, on: int | None = None, holder: str = "job") -> None:
    """Starts one task on a node, a share on the GPU ``on``."""
    gpus: tuple[int, ...] = ()
    shares: tuple[ShareUse, ...] = ()
    if isinstance(group.gpu, WholeGpus):
        gpus = node.lowest_free_gpus(group.gpu.count)
    elif isinstance(group.gpu, MpsShare) and on is not None:
        asked = group.gpu
        shares = (ShareUse(gpu=on, percent=asked.percent, memory_mib=asked.memory_mib),)
    task = Task(
        group=group.name,
        node=node.id,
        count=1,
        gpus=gpus,
        shares=shares,
        cpu_milli=group.cpu_milli,
        memory_mib=group.memory_mib,
    )
    node.occupy(task, holder)


HALF_MIX = mix_of((share(50), 1), (whole(2), 1))


def half_used_node() -> NodeState:
    """GPU 0 has 40 % in use, GPU 1 is held whole, GPUs 2 and 3 are free: 2,600 free milli-GPU."""
    node = make_node()
    start(node, share(40), on=0, holder="a")
    node.occupy(Task(group="main", node="n0", count=1, gpus=(1,)), "b")
    return node


# the mix -> how much of the 2,600 free milli-GPU it cannot use
UNUSABLE: dict[str, tuple[WorkloadMix, int]] = {
    "an empty mix knows of no fragments": (WorkloadMix(), 0),
    "a small share can use every part": (mix_of((share(60), 1)), 0),
    "a larger share cannot use the part": (mix_of((share(61), 1)), 600),
    "whole GPUs cannot use the part": (mix_of((whole(2), 1)), 600),
    "more GPUs than are free can use nothing": (mix_of((whole(3), 1)), 2_600),
    "a task without GPUs can use nothing": (mix_of((_group(None, 1, 1), 1)), 2_600),
    "nor can one for which the CPU is short": (mix_of((share(10, cpus=70), 1)), 2_600),
    "nor one for which the memory is short": (mix_of((whole(1, memory_gib=300), 1)), 2_600),
    "nor one that wants another model": (mix_of((whole(1, models=("h100",)), 1)), 2_600),
    "one that wants this model can": (mix_of((whole(1, models=("h100", A100.name)), 1)), 600),
    "a slice needs a GPU that is not shared": (
        mix_of((_group(MigSlice(profile="1g.5gb"), 1, 1), 1)),
        600,
    ),
    "several shapes count by their tasks": (mix_of((whole(2), 1), (share(60), 3)), 150),
}


@pytest.mark.parametrize("sentence", UNUSABLE)
def test_fragmentation_is_capacity_the_mix_cannot_use(sentence: str) -> None:
    mix, expected = UNUSABLE[sentence]
    assert fragmentation_milli(half_used_node(), mix) == expected


def test_a_task_that_needs_a_whole_node_can_use_one() -> None:
    group = whole(4, cpus=64, memory_gib=256)
    assert fragmentation_milli(make_node(), mix_of((group, 1))) == 0


def test_a_full_node_has_no_fragments() -> None:
    node = make_node(gpus=1)
    start(node, whole(1))
    assert fragmentation_milli(node, mix_of((whole(8), 1))) == 0


def test_unhealthy_gpus_and_full_client_lists_have_no_capacity() -> None:
    node = half_used_node()
    node.devices[2].healthy = False
    node.refresh(2)
    assert fragmentation_milli(node, mix_of((whole(8), 1))) == 1_600
    node.devices[0].mps_client_limit = 1
    assert fragmentation_milli(node, mix_of((whole(8), 1))) == 1_000


def test_free_capacity_of_a_partitioned_gpu_is_for_slices() -> None:
    node = make_node(gpus=1)
    node.devices[0].partition((MigInstance(profile="3g.20gb", start=0),))
    node.devices[0].take_slice(MigInstance(profile="3g.20gb", start=0), "a")
    node.refresh(0)
    assert fragmentation_milli(node, mix_of((whole(8), 1))) == 0


# -- the mix -------------------------------------------------------------------------------------


def test_the_most_frequent_shapes_represent_all() -> None:
    mix = WorkloadMix()
    for percent in range(1, 100):
        mix.add(share(percent), 1_000 * percent if percent <= 3 else 1)
    assert [shape.each_milli for shape, _ in mix.shapes] == [30, 20, 10]
    assert mix.weight == sum(weight for _, weight in mix.shapes)


def test_the_number_of_shapes_is_bounded() -> None:
    mix = WorkloadMix()
    for cpus in range(1, 40):
        for percent in range(1, 100):
            mix.add(share(percent, cpus=cpus), 1)
    assert len(mix.shapes) == MOST_SHAPES


def test_similar_amounts_are_one_shape() -> None:
    assert shape_of(whole(1, cpus=62)) == shape_of(whole(1, cpus=65))
    assert shape_of(whole(1, cpus=62)) != shape_of(whole(1, cpus=56))


@given(cpu_milli=st.integers(0, 1_000_000), memory_mib=st.integers(0, 1 << 24))
def test_rounding_never_enlarges_a_task_nor_shrinks_it_much(
    cpu_milli: int, memory_mib: int
) -> None:
    shape = shape_of(TaskGroup(cpu_milli=cpu_milli, memory_mib=memory_mib))
    assert cpu_milli * 8 / 9 <= shape.cpu_milli <= cpu_milli
    assert memory_mib * 8 / 9 <= shape.memory_mib <= memory_mib


def test_the_mix_changes_rarely_and_not_by_queries() -> None:
    mix, asked = WorkloadMix(), WorkloadMix()
    versions = set()
    for number in range(10_000):
        group = share(1 + number % 7)
        mix.add(group, 1)
        asked.add(group, 1)
        versions.add(mix.version)
        fragmentation_milli(make_node(gpus=1), asked)
    assert len(versions) < 30
    assert (asked.shapes, asked.version) == (mix.shapes, mix.version)


def test_old_submissions_decay() -> None:
    mix = mix_of((whole(8), REMEMBERED_TASKS))
    for _ in range(8 * REMEMBERED_TASKS // 1_000):
        mix.add(whole(1), 1_000)
    assert [shape.gpus for shape, _ in mix.shapes] == [1]


# -- which GPU -----------------------------------------------------------------------------------


def test_a_share_goes_where_it_leaves_usable_capacity() -> None:
    node = make_node(gpus=3)
    start(node, share(45), on=1, holder="a")
    start(node, share(50), on=2, holder="b")
    assert choose_gpu_for_share(node, share(50), HALF_MIX) == 2
    assert choose_gpu_for_share(node, share(55), HALF_MIX) == 1
    assert choose_gpu_for_share(node, share(56), HALF_MIX) == 0


def test_a_free_gpu_is_chosen_if_that_fragments_less_than_a_used_one() -> None:
    node = make_node(gpus=2)
    start(node, share(40), on=0, holder="a")
    mix = mix_of((share(60), 1))
    assert choose_gpu_for_share(node, share(10), mix) == 1
    assert choose_gpu_for_share(node, share(60), mix) == 0


def test_among_identical_gpus_the_lowest_without_a_layout_is_shared() -> None:
    node = make_node(gpus=3)
    node.devices[0].partition((MigInstance(profile="7g.40gb", start=0),))
    node.refresh(0)
    assert choose_gpu_for_share(node, share(50), HALF_MIX) == 1
    start(node, whole(2))
    assert choose_gpu_for_share(node, share(50), HALF_MIX) == 0


def test_a_share_avoids_gpus_without_capacity_or_memory() -> None:
    node = make_node(gpus=2)
    start(node, share(50, gpu_memory_mib=30_000), on=0, holder="a")
    assert choose_gpu_for_share(node, share(50), HALF_MIX) == 0
    assert choose_gpu_for_share(node, share(50, gpu_memory_mib=20_000), HALF_MIX) == 1
    assert choose_gpu_for_share(node, share(50, gpu_memory_mib=90_000), HALF_MIX) is None
    assert choose_gpu_for_share(node, whole(1), HALF_MIX) is None


# -- which node ----------------------------------------------------------------------------------


def test_one_gpu_is_taken_where_no_pair_is_split() -> None:
    nodes = make_pool(make_node("n0", gpus=2), make_node("n1", gpus=4), make_node("n2", gpus=4))
    start(nodes[2], whole(1))
    mix = mix_of((whole(2), 1))
    assert least_fragmenting(iter(nodes), whole(1), mix) is nodes[1]


def test_a_task_with_much_cpu_goes_where_no_gpu_lacks_cpu() -> None:
    nodes = make_pool(make_node("n0"), make_node("n1"))
    start(nodes[1], whole(3))
    hungry = whole(1, cpus=60)
    assert least_fragmenting(iter(nodes), hungry, mix_of((whole(1, cpus=8), 1))) is nodes[1]


def test_a_task_without_gpus_goes_where_its_cpu_is_needed_least() -> None:
    nodes = make_pool(make_node("n0"), make_node("n1"), make_node("n2"))
    start(nodes[1], whole(4))
    plain = _group(None, 60, 0)
    assert least_fragmenting(iter(nodes), plain, mix_of((whole(1, cpus=8), 1))) is nodes[1]


def test_ties_go_by_id() -> None:
    mix = mix_of((whole(1), 1))
    nodes = make_pool(*(make_node(f"n{number}") for number in range(4)))
    assert least_fragmenting(reversed(nodes), whole(1), mix) is nodes[0]
    start(nodes[3], _group(None, 1, 0))
    start(nodes[2], whole(1, cpus=0))
    assert least_fragmenting(iter(nodes), whole(1), mix) is nodes[0]


def test_a_difference_below_a_step_is_a_tie() -> None:
    nodes = make_pool(make_node("n0", gpus=1), make_node("n1", gpus=1))
    start(nodes[0], share(10), on=0)
    plain = _group(None, 1, 1)
    seldom = mix_of((share(20), 2), (share(19), 18), (plain, 20))
    assert least_fragmenting(iter(nodes), share(71), seldom) is nodes[0]
    often = mix_of((share(20), 1), (plain, 1))
    assert least_fragmenting(iter(nodes), share(71), often) is nodes[1]


def test_a_node_is_scored_by_its_best_gpu_for_the_share() -> None:
    nodes = make_pool(make_node("n0", gpus=2), make_node("n1", gpus=1))
    start(nodes[0], share(40), on=0)
    start(nodes[1], share(30), on=0)
    assert least_fragmenting(iter(nodes), share(60), mix_of((share(60), 1))) is nodes[0]


def test_without_a_fitting_gpu_no_node_is_chosen() -> None:
    node = make_node(gpus=2)
    start(node, share(30), on=0, holder="a")
    start(node, share(30, gpu_memory_mib=40_000), on=1, holder="b")
    assert least_fragmenting(iter([node]), whole(1), HALF_MIX) is None
    assert least_fragmenting(iter([node]), share(71), HALF_MIX) is None
    assert least_fragmenting(iter([node]), share(70), HALF_MIX) is node
    assert least_fragmenting(iter([node]), share(70, gpu_memory_mib=2_000), HALF_MIX) is node
    start(node, share(70), on=0, holder="c")
    assert least_fragmenting(iter([node]), share(70, gpu_memory_mib=2_000), HALF_MIX) is None
    assert least_fragmenting(iter([]), share(70), HALF_MIX) is None


# -- the index -----------------------------------------------------------------------------------

GROUPS = (
    whole(1),
    whole(2, cpus=16),
    whole(4, cpus=30),
    share(30),
    share(55, cpus=12),
    share(80),
    _group(None, 10, 8),
)
groups = st.sampled_from(GROUPS)


def fits(node: NodeState, group: TaskGroup) -> bool:
    return node.is_open and node.cpu_free_milli >= group.cpu_milli


class World:
    """A small pool that is filled randomly, with its index."""

    def __init__(self, mix: WorkloadMix) -> None:
        self.mix = mix
        sizes = ((4, 64), (4, 64), (2, 96), (8, 64), (1, 8), (4, 64))
        self.nodes = make_pool(
            *(make_node(f"n{at}", gpus=g, cpus=c) for at, (g, c) in enumerate(sizes))
        )
        self.index = NodeIndex(self.nodes, Fragmentation(mix))

    def scan(self, group: TaskGroup) -> NodeState | None:
        roomy = [node for node in self.nodes if fits(node, group)]
        return least_fragmenting(iter(roomy), group, self.mix)

    def first(self, group: TaskGroup) -> NodeState | None:
        return next((n for n in self.index.nodes(group) if fits(n, group)), None)

    def take(self, node: NodeState, group: TaskGroup, holder: str) -> None:
        start(node, group, on=choose_gpu_for_share(node, group, self.mix), holder=holder)
        self.index.note(node)


@given(
    wanted=st.lists(groups, max_size=40),
    seen=st.lists(groups, min_size=1, max_size=6),
    closed=st.lists(st.integers(0, 5), max_size=5),
)
def test_the_index_finds_the_same_node_as_a_full_scan(
    wanted: Sequence[TaskGroup], seen: Sequence[TaskGroup], closed: Sequence[int]
) -> None:
    world = World(mix_of(*Counter(seen).items()))
    for number, group in enumerate(wanted):
        if number < len(closed):
            node = world.nodes[closed[number]]
            node.closed_for = None if node.closed_for else "someone"
            world.index.note(node)
        found = world.first(group)
        assert found is world.scan(group)
        if found is not None:
            world.take(found, group, f"job{number}")
        if number % 5 == 4:
            world.mix.add(group, 1)


def test_the_index_follows_releases() -> None:
    world = World(mix_of((whole(1), 1)))
    task = Task(group="main", node="n0", count=1, gpus=(0, 1, 2, 3))
    assert world.first(whole(1)) is world.nodes[0]
    world.nodes[0].occupy(task, "job")
    world.index.note(world.nodes[0])
    assert world.first(whole(1)) is world.nodes[1]
    world.nodes[0].vacate(task, "job")
    world.index.note(world.nodes[0])
    assert world.first(whole(1)) is world.nodes[0]


def test_the_index_contains_open_nodes_only() -> None:
    world = World(mix_of((whole(1), 1)))
    world.nodes[4].up = False
    world.nodes[2].closed_for = "someone"
    shown = [node.id for node in world.index.nodes(whole(1))]
    assert shown == ["n0", "n1", "n3", "n5"]
    world.nodes[2].closed_for, world.nodes[5].closed_for = None, "someone"
    world.index.note(world.nodes[2])
    world.index.note(world.nodes[5])
    shown = [node.id for node in world.index.nodes(whole(1))]
    assert shown == ["n0", "n1", "n2", "n3"]


def test_the_index_follows_the_mix() -> None:
    world = World(mix_of((whole(1), 1)))
    world.take(world.nodes[3], whole(1), "job")
    assert world.first(whole(1)) is world.nodes[0]
    world.mix.add(whole(2), 100)
    world.mix.add(whole(7), 1_000)
    assert world.first(whole(1)) is world.scan(whole(1)) is world.nodes[4]


@given(st.lists(groups, min_size=1, max_size=12), st.integers(0, 1_000))
def test_the_order_of_the_nodes_does_not_matter(wanted: Sequence[TaskGroup], seed: int) -> None:
    world = World(mix_of(*Counter(wanted).items()))
    for number, group in enumerate(wanted):
        found = world.scan(group)
        shown = [node for node in world.nodes if fits(node, group)]
        random.Random(seed).shuffle(shown)
        assert least_fragmenting(iter(shown), group, world.mix) is found
        if found is not None:
            world.take(found, group, f"job{number}")


@given(st.lists(groups, min_size=1, max_size=30), st.lists(groups, min_size=1, max_size=8))
def test_fragmentation_is_the_papers_formula(
    wanted: Sequence[TaskGroup], seen: Sequence[TaskGroup]
) -> None:
    world = World(mix_of(*Counter(seen).items()))
    for number, group in enumerate(wanted):
        found = world.scan(group)
        if found is not None:
            world.take(found, group, f"job{number}")
    for node in world.nodes:
        assert fragmentation_milli(node, world.mix) == _published_formula(node, world.mix)


def _published_formula(node: NodeState, mix: WorkloadMix) -> int:
    free = [10 * device.free_percent for device in node.devices]
    total = 0
    for shape, weight in mix.shapes:
        enough = sum(part >= shape.each_milli for part in free) >= shape.gpus > 0
        if enough and node.cpu_free_milli >= shape.cpu_milli:
            total += weight * sum(part for part in free if part < shape.each_milli)
        else:
            total += weight * sum(free)
    return total // mix.weight

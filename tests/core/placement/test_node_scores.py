"""Placement policies: the node that each prefers, in one pool and in several."""

from __future__ import annotations

import pytest

from bursar.core.check import require_valid
from bursar.core.cycle import decide
from bursar.core.nodes.workload_mix import FreeResources, TaskShape, WorkloadMix
from bursar.core.placement.node_scores import best_gpu, scorer_for
from bursar.core.placement.remaining_capacity import RemainingCapacity
from bursar.core.placement.tie_break import shuffled_ranks
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import Hold, StartJob
from bursar.model.jobs.job import FlavorChoice, JobSpec, MpsShare, TaskGroup, WholeGpus
from bursar.model.reason import NoCapacity, OverQuota
from bursar.model.tenants.policy import PlacementPolicy, Policies
from tests.support import fleet_of, job, mps_job, pool, queue, quota, state_of, submit

CPUS = 1_000
ROOMS = (
    (FreeResources("a", 8, 8, (), 96 * CPUS, 0), 10),
    (FreeResources("b", 2, 2, (), 96 * CPUS, 0), 10),
)


def mix_of(*groups: tuple[TaskGroup, int]) -> WorkloadMix:
    mix = WorkloadMix(lambda: ROOMS)
    for group, tasks in groups:
        mix.add(group, tasks)
    return mix


def free(whole: int, *parts: int, cpus: int = 96, gpus: int = 8, model: str = "a") -> FreeResources:
    return FreeResources(model, gpus, whole, tuple(sorted(parts)), cpus * CPUS, 0)


def whole(gpus: int, *, cpus: int = 4, models: tuple[str, ...] = ()) -> TaskGroup:
    return TaskGroup(gpu=WholeGpus(count=gpus, models=models), cpu_milli=cpus * CPUS)


def share(percent: int, *, cpus: int = 4) -> TaskGroup:
    return TaskGroup(gpu=MpsShare(percent=percent), cpu_milli=cpus * CPUS)


ONE = mix_of((whole(1), 1))

# sentence -> policy, mix, task, the preferred node, the other node
PREFERS: dict[str, tuple[PlacementPolicy, WorkloadMix, TaskGroup, FreeResources, FreeResources]] = {
    "best fit takes the node with fewer free GPUs": (
        PlacementPolicy.BEST_FIT,
        ONE,
        whole(1),
        free(2),
        free(3),
    ),
    "best fit takes the node with less free CPU where GPUs are equal": (
        PlacementPolicy.BEST_FIT,
        ONE,
        whole(1),
        free(2, cpus=50),
        free(2, cpus=60),
    ),
    "best fit counts 12 CPUs of 96 like one GPU of 8": (
        PlacementPolicy.BEST_FIT,
        ONE,
        whole(1),
        free(3, cpus=40),
        free(2, cpus=60),
    ),
    "the dot product takes the node with little free of the requested resource": (
        PlacementPolicy.DOT_PRODUCT,
        ONE,
        whole(4, cpus=0),
        free(4),
        free(8, cpus=4),
    ),
    "packing takes a shared GPU before a free one": (
        PlacementPolicy.PACKING,
        ONE,
        share(30),
        free(1, 900),
        free(1),
    ),
    "packing takes the fullest shared GPU": (
        PlacementPolicy.PACKING,
        ONE,
        share(30),
        free(1, 400),
        free(1, 900),
    ),
    "packing takes free GPUs of a used node before an empty node": (
        PlacementPolicy.PACKING,
        ONE,
        whole(1),
        free(7),
        free(8),
    ),
    "packing opens the smaller of two empty nodes": (
        PlacementPolicy.PACKING,
        ONE,
        whole(1),
        free(2, gpus=2),
        free(8),
    ),
    "remaining capacity splits no pair where pairs are requested": (
        PlacementPolicy.REMAINING_CAPACITY,
        mix_of((whole(2), 1)),
        whole(1),
        free(1),
        free(2),
    ),
    "remaining capacity leaves CPU for GPUs that need it": (
        PlacementPolicy.REMAINING_CAPACITY,
        mix_of((whole(1, cpus=12), 1)),
        TaskGroup(cpu_milli=40 * CPUS),
        free(2, cpus=96),
        free(8, cpus=96),
    ),
    "remaining capacity avoids the model that some tasks require": (
        PlacementPolicy.REMAINING_CAPACITY,
        mix_of((whole(1, models=("b",)), 1), (whole(1), 3)),
        whole(1),
        free(2, gpus=2, model="a"),
        free(2, gpus=2, model="b"),
    ),
    "remaining capacity takes the fullest of equal nodes": (
        PlacementPolicy.REMAINING_CAPACITY,
        mix_of((whole(1, cpus=0), 1)),
        whole(1, cpus=0),
        free(2),
        free(3),
    ),
}


@pytest.mark.parametrize("sentence", PREFERS)
def test_which_node_a_policy_prefers(sentence: str) -> None:
    policy, mix, group, liked, other = PREFERS[sentence]
    scorer = scorer_for(policy, mix)
    ranks = [scorer.rank(node, scorer.key(group)) for node in (liked, other)]
    assert None not in ranks
    assert ranks[0] < ranks[1]  # type: ignore[operator]


@pytest.mark.parametrize("policy", PlacementPolicy)
def test_a_node_that_does_not_fit_has_no_rank(policy: PlacementPolicy) -> None:
    scorer = scorer_for(policy, mix_of((whole(1), 1)))
    assert scorer.rank(free(1), scorer.key(whole(2))) is None
    assert scorer.rank(free(1, cpus=3), scorer.key(whole(1))) is None
    assert scorer.rank(free(0, 300, 500), scorer.key(share(60))) is None
    assert scorer.rank(free(0, 300, 500), scorer.key(share(50))) is not None


def test_tasks_that_few_nodes_can_serve_weigh_more() -> None:
    common, picky = whole(1), whole(1, models=("b",))
    scorer = RemainingCapacity(mix_of((common, 1), (picky, 1)))
    of_b = scorer.capacity(free(2, gpus=2, model="b"))
    assert of_b > 5 * scorer.capacity(free(2, gpus=2, model="a"))


def test_a_task_without_gpus_has_no_weight_in_the_mix() -> None:
    assert RemainingCapacity(mix_of((TaskGroup(cpu_milli=1), 1))).capacity(free(8)) == 0
    assert RemainingCapacity(WorkloadMix()).capacity(free(8)) == 0


def test_models_and_memory_do_not_distinguish_shapes() -> None:
    for policy in PlacementPolicy:
        scorer = scorer_for(policy, ONE)
        assert scorer.key(whole(1, models=("a",))) == scorer.key(whole(1))
        assert isinstance(scorer.key(whole(1)), TaskShape)


def test_random_scores_are_drawn_from_seed_and_name() -> None:
    order = list(shuffled_ranks(50, 1, "job"))
    assert sorted(order) == list(range(50))
    assert order == list(shuffled_ranks(50, 1, "job"))
    assert order not in (list(shuffled_ranks(50, 2, "job")), list(shuffled_ranks(50, 1, "jib")))
    firsts = [next(shuffled_ranks(4, 0, f"job-{number}")) for number in range(4_000)]
    assert all(900 < firsts.count(rank) < 1_100 for rank in range(4))


# -- over several pools ------------------------------------------------------------------------------


def two_pools(placement: PlacementPolicy, second_usd: float = 16.0) -> FleetState:
    fleet = fleet_of(
        pool("big", 2, gpus=8),
        pool("small", 2, gpus=8, cpu=48, usd_per_node_hour=second_usd, model="h100-80gb"),
    )
    return state_of(fleet, (queue("research"),), Policies(placement=placement))


def place(state: FleetState, spec: JobSpec) -> str:
    submit(state, spec)
    decisions = decide(state, 0)
    require_valid(state, decisions, 0)
    (start,) = [one for one in decisions if isinstance(one, StartJob)]
    return start.placement.tasks[0].node


@pytest.mark.parametrize("policy", PlacementPolicy)
def test_a_task_is_placed_over_all_pools_of_one_price(policy: PlacementPolicy) -> None:
    state = two_pools(policy)
    node = place(state, job(gpus=1))
    if policy is PlacementPolicy.BEST_FIT:
        assert node.startswith("small")
    elif policy is PlacementPolicy.FIRST_FIT:
        assert node.startswith("big")


def test_a_cheaper_pool_goes_first_regardless_of_its_nodes() -> None:
    state = two_pools(PlacementPolicy.BEST_FIT, second_usd=32.0)
    assert place(state, job(gpus=1)).startswith("big")


def test_a_job_that_names_models_in_order_gets_the_first() -> None:
    state = two_pools(PlacementPolicy.BEST_FIT)
    models = ("a100-80gb", "h100-80gb")
    spec = job(gpus=1, models=models, choose_by=FlavorChoice.ORDER)
    assert place(state, spec).startswith("big")


def test_quota_of_one_flavor_leaves_the_other_pool() -> None:
    fleet = fleet_of(pool("big", gpus=8), pool("small", gpus=8, cpu=48, model="h100-80gb"))
    limited = queue("research", quota={"h100-80gb/owned": quota(0, borrow=0)})
    policies = Policies(placement=PlacementPolicy.BEST_FIT)
    state = state_of(fleet, (limited,), policies)
    assert place(state, job(gpus=1)).startswith("big")


def test_a_task_that_fits_nowhere_gets_a_reason_from_every_pool() -> None:
    fleet = fleet_of(pool("one", gpus=1), pool("two", gpus=1))
    full = state_of(fleet, (queue("research"),), Policies())
    for number in range(3):
        submit(full, job(f"job{number}", gpus=1))
    decisions = decide(full, 0)
    require_valid(full, decisions, 0)
    assert sum(isinstance(one, StartJob) for one in decisions) == 2
    (hold,) = [one for one in decisions if isinstance(one, Hold)]
    assert [reason.pool for reason in hold.reasons if isinstance(reason, NoCapacity)] == [
        "one",
        "two",
    ]
    assert not any(isinstance(reason, OverQuota) for reason in hold.reasons)


@pytest.mark.parametrize("policy", PlacementPolicy)
def test_a_share_goes_to_a_gpu_with_capacity(policy: PlacementPolicy) -> None:
    state = two_pools(policy)
    for number in range(3):
        submit(state, mps_job(f"job{number}", 60))
    decisions = decide(state, 0)
    require_valid(state, decisions, 0)
    assert sum(isinstance(one, StartJob) for one in decisions) == 3


def test_only_an_mps_share_gets_a_fraction_of_a_gpu() -> None:
    state = two_pools(PlacementPolicy.BEST_FIT)
    node = state.pools["big"].nodes[0]
    assert best_gpu(node, whole(1), scorer_for(PlacementPolicy.BEST_FIT, ONE)) is None
    assert best_gpu(node, share(20), scorer_for(PlacementPolicy.BEST_FIT, ONE)) == 0

"""Mixed gangs: some tasks on spot, and a minimum of each group (anchors) on demand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.codec import from_text, to_text
from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.check import check
from bursar.core.cycle import decide
from bursar.core.explain.explain import explain
from bursar.core.explain.preview import preview
from bursar.core.placement.anchor_split import smallest_mixed_counts, split_anchors
from bursar.core.placement.pool_fit import ShapePlan, shape_of
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.snapshot import from_snapshot, to_snapshot
from bursar.model.decision import ClaimPlacement, Decision, EvacuateJob, StartJob
from bursar.model.event import (
    FleetDeclared,
    NodeLost,
    NoticeKind,
    PriceChanged,
    SpotNotice,
)
from bursar.model.fleet.fleet import Fleet, Market
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import (
    CheckpointPolicy,
    FlavorChoice,
    JobSpec,
    SliceLayer,
    Spread,
    Topology,
)
from bursar.model.reason import NoCapacity
from bursar.model.tenants.policy import (
    BackfillPolicy,
    Policies,
    PreemptionPolicy,
    SpotPolicy,
    WithinQueue,
)
from bursar.model.tenants.tenant import GPU
from bursar.model.units import HOUR_MS, MINUTE_MS, USD_MICRO
from tests.support import SchedulerHarness, fleet_of, gang, group, job, pool, queue, state_of
from tests.support.fleets import PoolPlan
from tests.support.state_audit import require_thoroughly_valid, state_faults

SPOT_FIRST = (Market.SPOT, Market.ON_DEMAND, Market.OWNED)
SAVES = CheckpointPolicy(interval_ms=30 * MINUTE_MS, restart_ms=5 * MINUTE_MS)


def spot_pool(name: str = "spot", nodes: int = 8, usd: float = 10, rate: int = 20_000) -> PoolPlan:
    return pool(
        name,
        nodes,
        gpus=8,
        market=Market.SPOT,
        usd_per_node_hour=usd,
        interruptions_per_million_hours=rate,
    )


def on_demand_pool(name: str = "standard", nodes: int = 10, usd: float = 30) -> PoolPlan:
    return pool(name, nodes, gpus=8, market=Market.ON_DEMAND, usd_per_node_hour=usd)


def fleet(*pools: PoolPlan) -> Fleet:
    return fleet_of(*(pools or (spot_pool(), on_demand_pool())))


def anchored(percent: int = 30, tasks: int = 10, **terms: object) -> JobSpec:
    """A gang whose tasks use one node each."""
    options = {"hours": 10, "markets": SPOT_FIRST, "checkpoint": SAVES, **terms}
    return job("train", gpus=8, tasks=tasks, anchors_percent=percent, **options)  # type: ignore[arg-type]


def harness_of(*pools: PoolPlan, policies: Policies | None = None) -> SchedulerHarness:
    state = state_of(fleet(*pools), (queue(),), policies)
    state.spot.begin(0)
    return SchedulerHarness(state)


def step(harness: SchedulerHarness) -> tuple[Decision, ...]:
    """Runs one cycle and checks its decisions, and the state before and after it."""
    require_thoroughly_valid(harness.state, decide(harness.state, harness.now_ms), harness.now_ms)
    found = harness.cycle()
    assert not state_faults(harness.state)
    return found


def tasks_in(placement: Placement) -> dict[str, int]:
    return {part.pool: sum(task.count for task in part.tasks) for part in placement.parts}


def start(harness: SchedulerHarness, spec: JobSpec) -> dict[str, int]:
    harness.submit(spec)
    step(harness)
    return tasks_in(harness.placement_of(spec.name))


# -- how many are anchors --------------------------------------------------------------------------


def plan_of(spec: JobSpec) -> ShapePlan:
    return ShapePlan(0, shape_of(spec), HOUR_MS)


ANCHORS: dict[str, tuple[JobSpec, tuple[int, ...], tuple[int, ...]]] = {
    "a percentage of the tasks": (anchored(30, 10), (7,), (3,)),
    "rounded up": (anchored(30, 9), (6,), (3,)),
    "of each group, so a launcher is an anchor": (
        gang("g", group("launcher", cpu=4), group("worker", 8, gpus=8), anchors_percent=25),
        (0, 6),
        (1, 2),
    ),
    "tasks without GPUs ignore the layers of those with GPUs": (
        gang(
            "g",
            group("reader", 4, cpu=4),
            group("worker", 4, gpus=8),
            anchors_percent=25,
            topology=Topology(layers=(SliceLayer(level="rack", size=2),)),
        ),
        (3, 2),
        (1, 2),
    ),
    "no spot task remains when all tasks are anchors": (anchored(100, 4), (0,), (4,)),
    "layers are not split": (
        anchored(30, 8, topology=Topology(layers=(SliceLayer(level="rack", size=4),))),
        (4,),
        (4,),
    ),
}


@pytest.mark.parametrize("rule", ANCHORS)
def test_how_many_tasks_are_anchors(rule: str) -> None:
    spec, on_spot, on_demand = ANCHORS[rule]
    plan = plan_of(spec)
    assert split_anchors(plan, plan.counts) == (on_spot, on_demand)


def test_the_smallest_mixed_gang_has_a_task_on_spot() -> None:
    assert smallest_mixed_counts(plan_of(anchored(50, 4, min_tasks=1))) == (2,)
    assert smallest_mixed_counts(plan_of(anchored(30, 1))) is None
    assert smallest_mixed_counts(plan_of(anchored(100, 4))) is None


# -- placement -------------------------------------------------------------------------------------

CHOICES: dict[str, tuple[tuple[PoolPlan, ...], JobSpec, dict[str, int]]] = {
    "without anchors all tasks are on spot": ((), anchored(0, 4), {"spot": 4}),
    "with anchors the gang is mixed": ((), anchored(30), {"spot": 7, "standard": 3}),
    "all tasks are on demand where that is expected to cost less": (
        (spot_pool(rate=400_000), on_demand_pool()),
        anchored(30, checkpoint=CheckpointPolicy()),
        {"standard": 10},
    ),
    "all tasks are on demand where spot costs more": (
        (spot_pool(usd=40), on_demand_pool()),
        anchored(30),
        {"standard": 10},
    ),
    "all tasks are on demand where spot has too few free nodes": (
        (spot_pool(nodes=6), on_demand_pool()),
        anchored(30),
        {"standard": 10},
    ),
    "tasks are never all on spot, however cheap": (
        (spot_pool(nodes=10, usd=0.5, rate=0), on_demand_pool(nodes=3)),
        anchored(30),
        {"spot": 7, "standard": 3},
    ),
    "of two on-demand pools the cheaper has the anchors": (
        (spot_pool(), on_demand_pool("dear"), on_demand_pool("cheap", usd=20)),
        anchored(30),
        {"spot": 7, "cheap": 3},
    ),
    "the more expensive one has them when the cheaper is full": (
        (spot_pool(), on_demand_pool("dear"), on_demand_pool("cheap", nodes=2, usd=20)),
        anchored(30),
        {"spot": 7, "dear": 3},
    ),
    "anchors are of the same model": (
        (spot_pool(), on_demand_pool(), pool("v", 10, gpus=8, model="h100-80gb")),
        anchored(30, markets=(Market.SPOT, Market.OWNED)),
        {"v": 10},
    ),
    "anchors are of the same cluster": (
        (replace(spot_pool(), cluster="far"), on_demand_pool()),
        anchored(30),
        {"standard": 10},
    ),
    "an order of markets is respected": (
        (spot_pool(usd=40), on_demand_pool()),
        anchored(30, choose_by=FlavorChoice.ORDER),
        {"spot": 7, "standard": 3},
    ),
    "an elastic gang is mixed with fewer spot tasks": (
        (spot_pool(nodes=3), on_demand_pool(nodes=2)),
        anchored(30, min_tasks=2),
        {"spot": 3, "standard": 2},
    ),
    "an elastic gang runs on its anchors alone without spot nodes": (
        (spot_pool(nodes=0), on_demand_pool(nodes=3)),
        anchored(30, min_tasks=2),
        {"standard": 3},
    ),
}


@pytest.mark.parametrize("rule", CHOICES)
def test_where_a_gang_starts(rule: str) -> None:
    pools, spec, where = CHOICES[rule]
    assert start(harness_of(*pools), spec) == where


def test_without_capacity_the_reason_names_the_part_that_lacks_it() -> None:
    harness = harness_of(spot_pool(), on_demand_pool(nodes=2))
    harness.submit(anchored(30))
    step(harness)
    held = harness.hold_of("train")
    assert held is not None
    mixed, standard = held.reasons
    assert isinstance(mixed, NoCapacity) and isinstance(standard, NoCapacity)
    assert (mixed.pool, mixed.tasks_wanted, mixed.tasks_that_fit) == ("standard", 3, 2)
    assert (standard.pool, standard.tasks_wanted) == ("standard", 10)


def with_racks(*plans: PoolPlan) -> Fleet:
    """Both pools in the same two racks."""
    found = fleet_of(*plans, topology={"rack": 4})
    return replace(
        found,
        nodes=tuple(
            replace(one, labels={"rack": one.labels["rack"].removeprefix(f"{one.pool}-")})
            for one in found.nodes
        ),
    )


def test_a_gang_that_must_be_in_one_rack_has_its_anchors_there() -> None:
    state = state_of(with_racks(spot_pool(), on_demand_pool(nodes=8)))
    harness = SchedulerHarness(state)
    harness.submit(job("first", gpus=8, tasks=3))
    harness.apply(NodeLost(at_ms=0, node="spot-0005"))
    start(harness, replace(anchored(50, 4, topology=Topology(required="rack"))))
    nodes = harness.nodes_of("train")
    assert len({state.node(node).labels["rack"] for node in nodes}) == 1
    assert {state.pool_of_node[node].spec.name for node in nodes} == {"spot", "standard"}


def test_a_spread_counts_anchors_and_spot_tasks() -> None:
    state = state_of(with_racks(spot_pool(), on_demand_pool(nodes=8)))
    harness = SchedulerHarness(state)
    start(harness, anchored(50, 4, spread=Spread(level="rack", max_tasks=2)))
    racks = [state.node(node).labels["rack"] for node in harness.nodes_of("train")]
    assert sorted(racks) == ["rack-0001", "rack-0001", "rack-0002", "rack-0002"]


# -- what it costs and takes -----------------------------------------------------------------------


def test_only_spot_nodes_count_as_interruptible() -> None:
    harness = harness_of()
    start(harness, anchored(30))
    fits = {fit.name: fit for fit in harness.job("train").backlog.plan.fits}
    assert list(fits) == ["spot+standard", "standard"]
    mixed = fits["spot+standard"]
    assert mixed.hourly_micro_usd == (7 * 10 + 3 * 30) * USD_MICRO
    assert mixed.hazard(20_000).nodes == 7
    undisturbed = mixed.expected_cost(0)
    assert undisturbed * 300 == fits["standard"].expected_micro_usd * 160
    assert undisturbed < mixed.expected_micro_usd < fits["standard"].expected_micro_usd


def test_the_explanation_has_the_figures_of_the_mixed_choice() -> None:
    state = harness_of().state
    arrival = AdmissionRequest(
        spec=anchored(30), job_id="train", at_ms=0, state=state, known_models=frozenset()
    )
    found = preview(arrival).explanation
    assert found is not None and found.spot is not None
    text = "\n".join(found.spot.lines())
    assert "spot (spot) with 3 of 10 tasks as anchors in standard at $160.00 an hour" in text
    assert "an interruption every 7 h 8 m" in text
    assert "standard (on-demand) at $300.00 an hour for 10 h: $3,000.00" in text


def test_the_explanation_of_a_running_mixed_job_has_both_pools_and_the_total_price() -> None:
    harness = harness_of()
    start(harness, anchored(30))
    text = "\n".join(explain(harness.state, "train", 0).lines())
    assert "on spot and, as anchors, standard" in text
    assert "$160.00 an hour" in text


def test_each_part_is_charged_to_the_quota_of_its_flavor() -> None:
    harness = SchedulerHarness(
        state_of(fleet(), (queue(quota={"a100-80gb/spot": 56, "a100-80gb/on-demand": 24}),))
    )
    start(harness, anchored(30))
    used = harness.state.quota.usage
    assert used("research", ("a100-80gb/spot", GPU)) == 56_000
    assert used("research", ("a100-80gb/on-demand", GPU)) == 24_000
    assert harness.job("train").weight == harness.placement_of("train").all_micro_usd_per_hour
    harness.start_all().finish("train")
    assert used("research", ("a100-80gb/spot", GPU)) == 0
    assert used("research", ("a100-80gb/on-demand", GPU)) == 0


@pytest.mark.parametrize(("flavor", "gpus"), [("spot", 55), ("on-demand", 23)])
def test_a_gang_waits_if_either_flavor_lacks_quota(flavor: str, gpus: int) -> None:
    harness = SchedulerHarness(state_of(fleet(), (queue(quota={f"a100-80gb/{flavor}": gpus}),)))
    harness.submit(anchored(30))
    step(harness)
    assert ("train" in harness.running()) == (flavor == "spot")


def test_a_cost_limit_counts_both_pools_and_their_new_prices() -> None:
    harness = harness_of()
    start(harness, anchored(30, max_cost_micro_usd=800 * USD_MICRO))
    harness.start_all()
    assert harness.job("train").limit_at_ms == 5 * HOUR_MS
    harness.now_ms = HOUR_MS
    change = PriceChanged(
        at_ms=HOUR_MS, pool="standard", node_micro_usd_per_hour=190 * USD_MICRO // 3
    )
    harness.apply(change)
    assert not state_faults(harness.state)
    found = harness.job("train").limit_at_ms
    assert found is not None and abs(found - (HOUR_MS + 640 * HOUR_MS // 260)) < 10


# -- lost nodes and preemption -----------------------------------------------------


def test_a_lost_spot_node_ends_the_attempt_and_the_gang_restarts() -> None:
    harness = harness_of(spot_pool(), on_demand_pool(nodes=3))
    start(harness, anchored(30, min_tasks=3))
    harness.start_all().advance(HOUR_MS).save("train")
    for node in ("spot-0001", "spot-0002"):
        harness.apply(NodeLost(at_ms=harness.now_ms, node=node))
    step(harness)
    assert tasks_in(harness.placement_of("train")) == {"spot": 6, "standard": 3}
    assert harness.job("train").done_ms == HOUR_MS
    assert harness.job("train").preemptions == 0


def test_a_notice_for_a_spot_node_stops_the_whole_gang() -> None:
    harness = harness_of()
    start(harness, anchored(30))
    harness.start_all()
    node = harness.placement_of("train").tasks[0].node
    harness.apply(
        SpotNotice(
            at_ms=0, node=node, source="test", kind=NoticeKind.TERMINATE, ends_at_ms=2 * MINUTE_MS
        )
    )
    step(harness)
    assert [order.node for order in harness.decided(EvacuateJob)] == [node]


LOWER = PreemptionPolicy(within_queue=WithinQueue.LOWER_PRIORITY)


@pytest.mark.parametrize("full", ["spot", "standard", "both"])
def test_a_mixed_gang_preempts_in_either_pool(full: str) -> None:
    state = state_of(fleet(spot_pool(nodes=2), on_demand_pool(nodes=2)), (queue(preemption=LOWER),))
    harness = SchedulerHarness(state)
    spot_only, on_demand_only = (Market.SPOT,), (Market.ON_DEMAND,)
    if full in ("spot", "both"):
        harness.submit(job("low-spot", gpus=8, tasks=2, markets=spot_only, priority_class="low"))
    if full in ("standard", "both"):
        harness.submit(
            job("low-standard", gpus=8, tasks=2, markets=on_demand_only, priority_class="low")
        )
    step(harness)
    harness.start_all().advance(HOUR_MS).submit(anchored(50, 4))
    step(harness)
    (claim,) = harness.decided(ClaimPlacement)
    assert tasks_in(claim.placement) == {"spot": 2, "standard": 2}
    for node in sorted({task.node for task in claim.placement.all_tasks}):
        assert state.node(node).closed_for == "train"
    harness.preempted()
    step(harness)
    assert tasks_in(harness.placement_of("train")) == {"spot": 2, "standard": 2}


@pytest.mark.parametrize("market", [Market.SPOT, Market.ON_DEMAND])
def test_a_preempted_mixed_gang_frees_both_pools(market: Market) -> None:
    state = state_of(fleet(spot_pool(nodes=2), on_demand_pool(nodes=2)), (queue(preemption=LOWER),))
    harness = SchedulerHarness(state)
    start(harness, replace(anchored(50, 4), priority_class="low"))
    harness.start_all().advance(HOUR_MS)
    harness.submit(job("urgent", gpus=8, tasks=2, markets=(market,), priority_class="high"))
    step(harness)
    assert harness.preempted_now() == ["train"]
    harness.preempted()
    step(harness)
    assert "urgent" in harness.running()


def test_a_reservation_covers_both_pools() -> None:
    policies = Policies(backfill=BackfillPolicy(reservations=1))
    harness = harness_of(spot_pool(nodes=2), on_demand_pool(nodes=3), policies=policies)
    harness.submit(
        job("spot-now", gpus=8, tasks=1, markets=(Market.SPOT,), max_hours=2),
        job("standard-now", gpus=8, tasks=2, markets=(Market.ON_DEMAND,), max_hours=3),
    )
    step(harness)
    harness.start_all()
    harness.submit(anchored(50, 4))
    step(harness)
    held = harness.hold_of("train")
    assert held is not None and isinstance(held.reasons[0], NoCapacity)
    assert held.reasons[0].expected_at_ms == harness.job("standard-now").end_at_ms
    long = {"gpus": 8, "hours": 9}
    harness.advance(1)
    harness.submit(
        job("long-spot", markets=(Market.SPOT,), **long),  # type: ignore[arg-type]
        job("long-standard", markets=(Market.ON_DEMAND,), **long),  # type: ignore[arg-type]
        job("short", gpus=8, hours=1, markets=(Market.SPOT,)),
    )
    step(harness)
    assert harness.started_now() == ["short"]


# -- deadlines -------------------------------------------------------------------------------------

TIMED = Policies(spot=SpotPolicy(tick_ms=10 * MINUTE_MS, change_over_ms=5 * MINUTE_MS))


@pytest.mark.parametrize(
    ("deadline_hours", "spot_nodes", "where"),
    [
        (20, 2, {"spot": 2, "standard": 2}),
        (20, 0, {}),
        (10.4, 2, {"standard": 4}),
    ],
)
def test_a_deadline_decides_between_mixed_and_on_demand(
    deadline_hours: float, spot_nodes: int, where: dict[str, int]
) -> None:
    harness = harness_of(spot_pool(nodes=spot_nodes), on_demand_pool(nodes=4), policies=TIMED)
    harness.submit(anchored(50, 4, deadline_ms=round(deadline_hours * HOUR_MS)))
    step(harness)
    placement = harness.job("train").placement
    assert ({} if placement is None else tasks_in(placement)) == where


def test_a_deadline_managed_mixed_job_leaves_spot_in_time() -> None:
    harness = harness_of(spot_pool(nodes=2), on_demand_pool(nodes=6), policies=TIMED)
    start(harness, anchored(50, 4, deadline_ms=14 * HOUR_MS))
    harness.start_all()
    for _ in range(40):
        harness.advance(10 * MINUTE_MS)
        step(harness)
        harness.preempted().start_all()
    assert tasks_in(harness.placement_of("train")) == {"standard": 4}


# -- what is written down --------------------------------------------------------------------------


def test_placements_with_and_without_anchors_are_read_back() -> None:
    harness = harness_of()
    start(harness, anchored(30))
    mixed = harness.placement_of("train")
    assert from_text(Placement, to_text(mixed)) == mixed
    alone = replace(mixed, anchors=None)
    assert from_text(Placement, to_text(alone)) == alone
    assert from_text(JobSpec, to_text(anchored(30))) == anchored(30)


def test_a_mixed_job_survives_a_snapshot() -> None:
    harness = harness_of()
    start(harness, anchored(30))
    harness.start_all()
    state = harness.state
    declared = FleetDeclared(at_ms=0, fleet=fleet(), tenants=(queue(),), policies=state.policies)
    again = from_snapshot(to_snapshot(state, declared, 0))
    assert not state_faults(again)
    assert again.jobs["train"].placement == harness.placement_of("train")


# -- the checker -----------------------------------------------------------------------------------


def faults(state: FleetState, placement: Placement) -> set[str]:
    order = StartJob(job_id="train", attempt=1, placement=placement)
    return {one.rule for one in check(state, (order,), 0)}


def test_the_checker_checks_anchors() -> None:
    harness = harness_of(spot_pool(nodes=10), on_demand_pool())
    harness.submit(anchored(30))
    (order,) = (one for one in decide(harness.state, 0) if isinstance(one, StartJob))
    mixed = order.placement
    assert mixed.anchors is not None
    assert faults(harness.state, mixed) == set()
    fewer = replace(mixed.anchors, tasks=mixed.anchors.tasks[:2])
    assert "too-few-anchors" in faults(harness.state, replace(mixed, anchors=fewer))
    both_spot = replace(mixed, anchors=replace(mixed, tasks=mixed.tasks[:1]))
    assert "wrong-pool-pair" in faults(harness.state, both_spot)
    swapped = replace(mixed.anchors, anchors=replace(mixed, anchors=None))
    assert "wrong-pool-pair" in faults(harness.state, swapped)
    dearer = replace(mixed, anchors=replace(mixed.anchors, micro_usd_per_hour=1))
    assert faults(harness.state, dearer) == {"wrong-price"}
    stray = replace(mixed.anchors, pool="nowhere")
    assert "unknown-pool" in faults(harness.state, replace(mixed, anchors=stray))
    alone = replace(mixed, anchors=None)
    assert {"gang-incomplete", "too-few-anchors"} <= faults(harness.state, alone)


def test_a_reservation_counts_the_end_of_a_running_mixed_gang() -> None:
    policies = Policies(backfill=BackfillPolicy(reservations=1))
    harness = harness_of(spot_pool(nodes=1), on_demand_pool(nodes=1), policies=policies)
    harness.submit(anchored(50, 2, hours=4))
    step(harness)
    assert tasks_in(harness.placement_of("train")) == {"spot": 1, "standard": 1}
    harness.start_all().submit(job("next", gpus=8, hours=1, markets=(Market.ON_DEMAND,)))
    step(harness)
    (reason,) = harness.hold_of("next").reasons
    assert isinstance(reason, NoCapacity)
    assert reason.expected_at_ms is not None and reason.expected_at_ms >= 4 * HOUR_MS

"""Charges computed by hand. A node has 8 GPUs, 96 CPUs and 1,024 GiB and costs $16 an hour."""

from __future__ import annotations

from typing import get_args

import pytest

from bursar.accounting.ledger.entry import AccountKind, kind_of
from bursar.accounting.ledger.meter import Meter
from bursar.accounting.ledger.node_fraction import SliceRule
from bursar.model import event as ev
from bursar.model.errors import BrokenInvariant
from bursar.model.fleet.fleet import Market, Node
from tests.accounting.scene import A100, NODE, Scene, gpus, ms, share_of, slice_of
from tests.support import fleet_of, pool

USD = 1_000_000
MIXED = (
    A100,
    pool("cheap", nodes=2, gpus=8, market=Market.SPOT, usd_per_node_hour=5.0),
)
MIXED_TASKS = (gpus(*range(8), node="cheap-0001"), gpus(*range(8)))

SCENARIOS: dict[str, tuple[Scene, float, dict[str, int]]] = {
    "an empty node is idle for as long as it exists": (
        Scene(at=0.5),
        2.5,
        {"idle:a100": 32 * USD},
    ),
    "half the GPUs cost half the node": (
        Scene().run("a", gpus(0, 1, 2, 3)).succeed("a", 2),
        3,
        {"usage:red": 16 * USD, "idle:a100": 32 * USD},
    ),
    "the largest fraction counts: one GPU with half the CPUs costs half the node": (
        Scene().run("a", gpus(0, cpu=48)).succeed("a", 1),
        1,
        {"usage:red": 8 * USD, "idle:a100": 8 * USD},
    ),
    "memory may be the largest fraction": (
        Scene().run("a", gpus(0, cpu=12, memory_gib=768)).succeed("a", 1),
        1,
        {"usage:red": 12 * USD, "idle:a100": 4 * USD},
    ),
    "two holders that exceed the node are scaled down: 3/4 and 1/2 pay 3/5 and 2/5": (
        Scene().run("a", gpus(0, cpu=72)).run("b", gpus(1, 2, 3, 4), queue="blue"),
        1,
        {"usage:red": 9_600_000, "usage:blue": 6_400_000},
    ),
    "when one of them leaves, the other pays its own fraction again": (
        Scene().run("a", gpus(0, cpu=72)).run("b", gpus(1, 2, 3, 4), queue="blue").succeed("a", 1),
        2,
        {"usage:red": 9_600_000, "usage:blue": 14_400_000, "idle:a100": 8 * USD},
    ),
    "a gang pays for its fraction of each node": (
        Scene(pool("a100", nodes=2, usd_per_node_hour=16.0))
        .run("a", gpus(0, 1, node=NODE), gpus(0, 1, 2, 3, node="a100-0002"))
        .succeed("a", 1),
        1,
        {"usage:red": 12 * USD, "idle:a100": 20 * USD},
    ),
    "groups of one job on one node are priced separately, as placements are": (
        Scene().run("a", gpus(0, 1), gpus(cpu=24)).succeed("a", 1),
        1,
        {"usage:red": 8 * USD, "idle:a100": 8 * USD},
    ),
    "a mixed gang pays in each pool at the price of that pool": (
        Scene(*MIXED).run("a", *MIXED_TASKS).succeed("a", 2),
        3,
        {"usage:red": (10 + 32) * USD, "idle:a100": 16 * USD, "idle:cheap": 20 * USD},
    ),
    "a mixed gang that loses a spot node loses its unsaved work in both pools": (
        Scene(*MIXED)
        .run("a", *MIXED_TASKS)
        .save("a", 1)
        .add(ev.NodeLost(at_ms=ms(1.5), node="cheap-0001")),
        2,
        {
            "usage:red": (5 + 16) * USD,
            "waste:red": 10_500_000,
            "idle:a100": 8 * USD,
            "idle:cheap": 10 * USD,
        },
    ),
    "a claimed placement of a mixed gang is reserved in both pools": (
        Scene(*MIXED).submit("a").claim("a", *MIXED_TASKS, at=0).assign("a", *MIXED_TASKS, at=1),
        2,
        {
            "reserved:cheap": 5 * USD,
            "reserved:a100": 16 * USD,
            "usage:red": 21 * USD,
            "idle:cheap": 10 * USD,
        },
    ),
    "a price applies from the time of its change": (
        Scene().run("a", gpus(*range(8))).price(4, at=0.5).price(32, at=1.75).succeed("a", 2),
        2,
        {"usage:red": (8 + 5 + 8) * USD},
    ),
    "four shares of a quarter are one GPU": (
        Scene()
        .run("a", share_of(0, 25))
        .run("b", share_of(0, 25))
        .run("c", share_of(0, 50), queue="blue"),
        1,
        {"usage:red": 1 * USD, "usage:blue": 1 * USD, "idle:a100": 14 * USD},
    ),
    "of a preempted attempt only the time since its checkpoint is waste": (
        Scene().run("a", gpus(*range(8))).save("a", 1.5).end(ev.AttemptPreempted, "a", at=2.25),
        3,
        {"usage:red": 24 * USD, "waste:red": 12 * USD, "idle:a100": 12 * USD},
    ),
    "without a checkpoint all of a failed attempt is waste": (
        Scene().run("a", gpus(0)).end(ev.AttemptFailed, "a", at=2),
        2,
        {"waste:red": 4 * USD, "idle:a100": 28 * USD},
    ),
    "a lost node stops costing and the unsaved work of its gang is waste": (
        Scene(pool("a100", nodes=2, usd_per_node_hour=16.0))
        .run("a", gpus(*range(8)), gpus(*range(8), node="a100-0002"))
        .save("a", 0.5)
        .add(ev.NodeLost(at_ms=ms(1), node=NODE)),
        2,
        {"usage:red": 16 * USD, "waste:red": 16 * USD, "idle:a100": 16 * USD},
    ),
    "a job cancelled by its user is usage, not waste": (
        Scene()
        .run("a", gpus(*range(8)))
        .add(ev.JobCancelled(at_ms=ms(1), job_id="a"))
        .end(ev.AttemptPreempted, "a", at=1.5),
        1.5,
        {"usage:red": 24 * USD},
    ),
    "a job that reaches its own time limit is usage, not waste": (
        Scene()
        .run("a", gpus(*range(8)))
        .add(ev.AttemptExpired(at_ms=ms(1), job_id="a", attempt=1))
        .end(ev.AttemptPreempted, "a", at=1),
        1,
        {"usage:red": 16 * USD},
    ),
    "a report about another attempt changes nothing": (
        Scene()
        .run("a", gpus(*range(8)))
        .end(ev.AttemptFailed, "a", at=0.5, attempt=7)
        .save("a", at=0.5, attempt=0)
        .succeed("a", 1),
        1,
        {"usage:red": 16 * USD},
    ),
    "a second attempt is charged like the first": (
        Scene()
        .submit("a", retries=1)
        .assign("a", gpus(*range(8)))
        .end(ev.AttemptFailed, "a", at=1)
        .assign("a", gpus(0, 1, 2, 3), at=1, attempt=2)
        .end(ev.AttemptSucceeded, "a", at=2, attempt=2),
        2,
        {"waste:red": 16 * USD, "usage:red": 8 * USD, "idle:a100": 8 * USD},
    ),
    "usage by other schedulers is foreign, and each report replaces the last": (
        Scene()
        .add(ev.ForeignUsageSeen(at_ms=0, node=NODE, gpus=(0, 1)))
        .add(ev.ForeignUsageSeen(at_ms=ms(1), node=NODE, cpu_milli=72_000))
        .add(ev.ForeignUsageSeen(at_ms=ms(2), node=NODE)),
        3,
        {"foreign:a100": 16 * USD, "idle:a100": 32 * USD},
    ),
    "a GPU that a job holds is never counted as foreign": (
        Scene().run("a", gpus(0)).add(ev.ForeignUsageSeen(at_ms=0, node=NODE, gpus=(0, 1))),
        1,
        {"usage:red": 2 * USD, "foreign:a100": 2 * USD, "idle:a100": 12 * USD},
    ),
    "a claimed placement is reserved where no other job still runs": (
        Scene()
        .run("victim", gpus(0, 1), queue="blue")
        .submit("a")
        .claim("a", gpus(0, 1, 2, 3), at=0)
        .succeed("victim", 1)
        .assign("a", gpus(0, 1, 2, 3), at=2)
        .succeed("a", 3),
        3,
        {"usage:blue": 4 * USD, "reserved:a100": 12 * USD, "usage:red": 8 * USD}
        | {"idle:a100": 24 * USD},
    ),
    "a claimed placement is charged by its largest fraction of the node": (
        Scene().submit("a").claim("a", gpus(0, 1, cpu=48), at=0),
        1,
        {"reserved:a100": 8 * USD, "idle:a100": 8 * USD},
    ),
    "a released placement is idle again": (
        Scene()
        .submit("a")
        .claim("a", gpus(*range(8)), at=0)
        .add(ev.ClaimReleased(at_ms=ms(1), job_id="a")),
        2,
        {"reserved:a100": 16 * USD, "idle:a100": 16 * USD},
    ),
    "cancelling a job with a claimed placement releases it": (
        Scene()
        .submit("a")
        .claim("a", gpus(*range(8)), at=0)
        .add(ev.JobCancelled(at_ms=ms(1), job_id="a")),
        2,
        {"reserved:a100": 16 * USD, "idle:a100": 16 * USD},
    ),
    "an end that is reported late counts from the last event of the node": (
        Scene()
        .run("a", gpus(0, 1, 2, 3))
        .run("b", gpus(4, 5, 6, 7), at=1, queue="blue")
        .succeed("a", 0.75),
        2,
        {"usage:red": 8 * USD, "usage:blue": 8 * USD, "idle:a100": 16 * USD},
    ),
    "a node whose return is reported late is not paid for twice": (
        Scene()
        .add(ev.NodeLost(at_ms=ms(1), node=NODE))
        .add(ev.NodeAdded(at_ms=ms(0.75), node=Node(id=NODE, pool="a100"))),
        2,
        {"idle:a100": 32 * USD},
    ),
    "a drained node still costs its price": (
        Scene().add(ev.NodeDrained(at_ms=0, node=NODE)),
        1,
        {"idle:a100": 16 * USD},
    ),
    "a node that joins costs from that time on": (
        Scene().add(ev.NodeAdded(at_ms=ms(1), node=Node(id="a100-new", pool="a100"))),
        2,
        {"idle:a100": 48 * USD},
    ),
}


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_balances_of_a_scenario(sentence: str) -> None:
    scene, until, spent = SCENARIOS[sentence]
    assert scene.spent(until) == dict(sorted(spent.items()))


SLICES: dict[SliceRule, tuple[int, int]] = {
    # 4g has 4/7 of compute and 4/8 of memory, 3g has 3/7 and 4/8. A GPU costs $2 an hour.
    SliceRule.MAX: (2 * USD * 571 // 1_071, 2 * USD * 500 // 1_071),  # 571 + 500 > 1,000: scaled
    SliceRule.COMPUTE: (2 * USD * 571 // 1_000, 2 * USD * 428 // 1_000),
    SliceRule.MEMORY: (1 * USD, 1 * USD),
}


@pytest.mark.parametrize("rule", SLICES)
def test_4g_and_3g_slices_of_one_gpu_split_its_cost(rule: SliceRule) -> None:
    scene = Scene().run("a", slice_of(0, "4g.40gb", 0))
    scene.run("b", slice_of(0, "3g.40gb", 4), queue="blue")
    spent = scene.spent(1, rule)
    four, three = SLICES[rule]
    assert abs(spent["usage:red"] - four) <= 1
    assert abs(spent["usage:blue"] - three) <= 1
    assert abs(spent["usage:blue"] - three) <= 1
    assert sum(spent.values()) == 16 * USD


def test_a_slice_alone_costs_its_fraction_of_the_memory_by_that_rule() -> None:
    scene = Scene().run("a", slice_of(0, "3g.40gb", 4))
    assert abs(scene.spent(1, SliceRule.MEMORY)["usage:red"] - 1 * USD) <= 1


def test_usage_and_waste_are_posted_hour_by_hour() -> None:
    scene = Scene().run("a", gpus(*range(8)), at=0.5).end(ev.AttemptFailed, "a", at=2.25)
    _, entries = scene.ledger(2.25)
    posted = [
        (one.debit, one.credit, one.from_ms, one.to_ms, one.micro_usd)
        for one in entries
        if one.micro_usd
    ]
    hours = [(0.5, 1.0, 8), (1.0, 2.0, 16), (2.0, 2.25, 4)]
    used = [("usage:red", "capacity:a100", ms(a), ms(b), usd * USD) for a, b, usd in hours]
    lost = [("waste:red", "usage:red", ms(a), ms(b), usd * USD) for a, b, usd in hours]
    idle = ("idle:a100", "capacity:a100", 0, ms(1), 8 * USD)
    assert sorted(posted) == sorted([idle, *used, *lost])
    assert [one.sequence for one in entries] == list(range(1, len(entries) + 1))
    assert {one.posted_ms for one in entries if one.debit == "waste:red"} == {ms(2.25)}


def test_a_new_declaration_reprices_removes_and_adds_nodes() -> None:
    before = fleet_of(pool("a", nodes=2, usd_per_node_hour=10.0), pool("b", usd_per_node_hour=1.0))
    scene = Scene()
    scene.log.clear()
    scene.declare(before, 0).add(ev.NodeLost(at_ms=0, node="a-0002"))
    scene.add(ev.NodeAdded(at_ms=ms(1), node=Node(id="a-more", pool="a")))
    after = fleet_of(pool("a", nodes=2, usd_per_node_hour=20.0), pool("c", usd_per_node_hour=3.0))
    scene.declare(after, 2)
    # a-0001: 2 h at 10, 1 h at 20. a-0002 stays lost. a-more: 1 h at 10, 1 h at 20. b goes, c comes.
    assert scene.spent(3) == {
        "idle:a": (20 + 20 + 10 + 20) * USD,
        "idle:b": 2 * USD,
        "idle:c": 3 * USD,
    }


def test_a_running_job_pays_the_new_price_after_a_declaration() -> None:
    scene = Scene().run("a", gpus(0, 1, 2, 3))
    scene.declare(fleet_of(pool("a100", gpus=8, cpu=96, usd_per_node_hour=32.0)), 1)
    scene.succeed("a", 2)
    assert scene.spent(2) == {"idle:a100": 24 * USD, "usage:red": 24 * USD}


def test_attempts_on_a_node_that_is_no_longer_declared_are_waste() -> None:
    scene = Scene(A100, pool("b", usd_per_node_hour=8.0)).run("a", gpus(*range(8)))
    scene.declare(fleet_of(pool("b", usd_per_node_hour=8.0)), 1)
    scene.succeed("a", 2)
    assert scene.spent(2) == {"idle:b": 16 * USD, "waste:red": 16 * USD}


def test_a_node_without_events_is_posted_ten_minutes_after_the_hour() -> None:
    posted: list[int] = []
    meter = Meter(lambda entry: posted.append(entry.to_ms))
    for event in Scene(pool("a100", nodes=2)).log:
        meter.apply(event)
    drained = ev.NodeDrained(at_ms=ms(1) + 599_999, node=NODE)
    meter.apply(drained)
    assert posted == []
    meter.apply(ev.NodeDrained(at_ms=ms(1) + 600_000, node=NODE))
    assert posted == [ms(1), ms(1)]


def test_the_meter_handles_every_event_of_a_log() -> None:
    def kinds(union: object) -> set[type]:
        members = get_args(union)
        return {kind for one in members for kind in kinds(one)} if members else {union}  # type: ignore[arg-type]

    meter = Meter(lambda entry: None)  # noqa: ARG005
    assert set(meter._apply) == kinds(ev.LoggedEvent)


@pytest.mark.parametrize(
    "scene",
    [
        Scene().assign("unknown", gpus(0)),
        Scene().run("a", gpus(0)).assign("a", gpus(1), attempt=2),
        Scene().submit("a").assign("a", gpus(0), attempt=2),
        Scene().run("a", gpus(0, node="elsewhere")),
        Scene().add(ev.NodeAdded(at_ms=0, node=Node(id=NODE, pool="a100"))),
    ],
)
def test_an_impossible_log_is_rejected(scene: Scene) -> None:
    with pytest.raises(BrokenInvariant):
        scene.books(1)


def test_gpu_time_is_posted_with_the_money() -> None:
    scene = Scene().run("a", gpus(0, 1, cpu=8, memory_gib=64)).succeed("a", 0.5)
    _, entries = scene.ledger(1)
    used = next(one for one in entries if kind_of(one.debit) is AccountKind.USAGE)
    assert used.volume.gpu_milli_ms == 2_000 * ms(0.5)
    assert used.volume.cpu_milli_ms == 8_000 * ms(0.5)
    assert used.volume.memory_mib_ms == 64 * 1024 * ms(0.5)
    assert used.volume.node_milli_ms == 250 * ms(0.5)
    assert (used.pool, used.flavor, used.node) == ("a100", "a100-80gb/owned", NODE)
    assert (used.job_id, used.attempt, used.queue) == ("a", 1, "red")


def test_waste_on_a_free_node_is_posted_with_its_gpu_time() -> None:
    free = pool("a100", gpus=8, cpu=96, memory_gib=1024, usd_per_node_hour=0)
    scene = Scene(free).run("a", gpus(0, 1)).end(ev.AttemptFailed, "a", 0.5)
    _, entries = scene.ledger(1)
    wasted = [one for one in entries if kind_of(one.debit) is AccountKind.WASTE]
    assert [(one.micro_usd, one.volume.gpu_milli_ms) for one in wasted] == [(0, 2_000 * ms(0.5))]


def test_waste_of_a_mixed_gang_is_posted_per_pool_to_the_micro_dollar() -> None:
    plans = (
        pool("a100", gpus=8, usd_per_node_hour=12.345679),
        pool("cheap", gpus=8, market=Market.SPOT, usd_per_node_hour=3.333333),
    )
    scene = Scene(*plans).run("a", *MIXED_TASKS).save("a", 0.3)
    scene.add(ev.NodeLost(at_ms=ms(1.7), node="cheap-0001"))
    _, entries = scene.ledger(2)
    sums: dict[tuple[str, str], int] = {}
    for entry in entries:
        key = kind_of(entry.debit), entry.pool
        sums[key] = sums.get(key, 0) + entry.micro_usd
    for name, price in (("cheap", 3_333_333), ("a100", 12_345_679)):
        used, saved = price * 17 // 10, price * 3 // 10
        assert sums[AccountKind.USAGE, name] == used
        assert sums[AccountKind.WASTE, name] == used - saved
    gpu_milli_ms = sum(one.volume.gpu_milli_ms for one in entries if one.debit == "usage:red")
    assert gpu_milli_ms == 2 * 8 * 1_000 * ms(1.7)

"""Statements computed by hand: two teams and a platform, one day, $16 an hour for 8 GPUs."""

from __future__ import annotations

import pytest

from bursar.accounting.ledger.entry import AccountKind
from bursar.accounting.reports.savings import Baseline, savings
from bursar.accounting.reports.statement import (
    PLATFORM,
    IdlePolicy,
    StatementRequest,
    Statements,
    StatementStyle,
    cents_of,
    statements,
)
from bursar.model import event as ev
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import DAY_MS
from tests.accounting.scene import NODE, Scene, gpus, ms, share_of
from tests.support import pool, queue, tenant

USD = 1_000_000
FLAVOR = "a100-80gb/owned"
TENANTS = (
    tenant("acme"),
    tenant("research", "acme", {FLAVOR: 6}),
    tenant("product", "acme", {FLAVOR: 2}),
    queue("red", "research"),
    queue("blue", "product"),
)
TEAMS = ("research", "product")


def a_day() -> Scene:
    """Red holds 4 GPUs for 12 hours ($96) and loses 6 of them ($48). Blue holds 2 all day ($96)."""
    scene = Scene().run("r", gpus(0, 1, 2, 3)).run("b", gpus(4, 5), queue="blue")
    scene.save("r", 6).end(ev.AttemptPreempted, "r", at=12)
    return scene.succeed("b", 24)


def written(scene: Scene, idle: IdlePolicy, *, payers: tuple[str, ...] = TEAMS) -> Statements:
    terms = StatementRequest(tenants=TENANTS, from_ms=0, to_ms=DAY_MS, idle=idle, payers=payers)
    return statements(scene.books(24), terms)


def paid(result: Statements) -> dict[str, int]:
    return {one.payer: one.micro_usd // USD for one in result.all}


PAID: dict[IdlePolicy, dict[str, int]] = {
    # The day costs 384; 192 are used, so 192 are idle.
    IdlePolicy.ABSORBED: {"product": 96, "research": 96, PLATFORM: 192},
    IdlePolicy.PROPORTIONAL: {"product": 192, "research": 192},
    # Research used 48 of its 144 GPU-hours, product all of its 48: the idle time is research's quota.
    IdlePolicy.QUOTA_OWNER: {"product": 96, "research": 96 + 192},
}


@pytest.mark.parametrize("idle", PAID)
def test_the_idle_policy_decides_who_pays_for_idle_time(idle: IdlePolicy) -> None:
    result = written(a_day(), idle)
    assert paid(result) == PAID[idle]
    assert result.micro_usd == 384 * USD and result.cents == 38_400
    for one in result.all:
        assert sum(line.micro_usd for line in one.lines) == one.micro_usd
        assert sum(line.cents for line in one.lines) == one.cents


def test_lines_are_by_job_model_and_market_with_gpu_time() -> None:
    red = written(a_day(), IdlePolicy.ABSORBED).of("research")
    assert red is not None
    lines = [(one.kind, one.job_id, one.gpu_model, one.market, one.micro_usd) for one in red.lines]
    assert lines == [
        (AccountKind.USAGE, "r", "a100-80gb", "owned", 48 * USD),
        (AccountKind.WASTE, "r", "a100-80gb", "owned", 48 * USD),
    ]
    assert [one.gpu_milli_ms for one in red.lines] == [4_000 * ms(6), 4_000 * ms(6)]


def test_without_payers_the_roots_pay_and_a_deleted_queue_pays_for_itself() -> None:
    assert paid(written(a_day(), IdlePolicy.ABSORBED, payers=())) == {"acme": 192, PLATFORM: 192}
    terms = StatementRequest(tenants=TENANTS[:4], from_ms=0, to_ms=DAY_MS)
    result = statements(a_day().books(24), terms)
    assert paid(result) == {"acme": 96, "blue": 96, PLATFORM: 192}


def test_only_chargebacks_of_tenants_are_owed() -> None:
    terms = StatementRequest(
        tenants=TENANTS, from_ms=0, to_ms=DAY_MS, style=StatementStyle.CHARGEBACK, payers=TEAMS
    )
    owed = {one.payer: one.owed_cents for one in statements(a_day().books(24), terms).all}
    assert owed == {"product": 9_600, "research": 9_600, PLATFORM: 0}
    shown = written(a_day(), IdlePolicy.ABSORBED)
    assert {one.owed_cents for one in shown.all} == {0}


def test_the_platform_pays_for_foreign_usage_under_every_policy() -> None:
    scene = Scene().add(ev.ForeignUsageSeen(at_ms=0, node=NODE, gpus=tuple(range(8))))
    for idle in IdlePolicy:
        assert paid(written(scene, idle)) == {PLATFORM: 384}


def test_a_real_bill_is_a_new_entry_that_payers_share_in_proportion() -> None:
    ledger, entries = a_day().ledger(24)
    before = ledger.books.balances()
    bill = ev.BillReceived(
        at_ms=3 * DAY_MS,
        pool="a100",
        flavor=FLAVOR,
        from_ms=0,
        to_ms=DAY_MS,
        billed_micro_usd=480 * USD,
    )
    posted = ledger.rerate(bill)
    assert posted is entries[-1]
    assert (posted.debit, posted.credit) == ("adjustment:a100", "capacity:a100")
    assert (posted.micro_usd, posted.posted_ms) == (96 * USD, 3 * DAY_MS)
    after = ledger.books.balances()
    assert {name: after[name] for name in before if name != "capacity:a100"} == {
        name: usd for name, usd in before.items() if name != "capacity:a100"
    }
    assert ledger.rerate(bill) is None
    result = statements(
        ledger.books, StatementRequest(tenants=TENANTS, from_ms=0, to_ms=DAY_MS, payers=TEAMS)
    )
    assert paid(result) == {"product": 120, "research": 120, PLATFORM: 240}


def test_a_lower_bill_debits_capacity() -> None:
    ledger, _ = a_day().ledger(24)
    bill = ev.BillReceived(
        at_ms=DAY_MS, pool="a100", flavor=FLAVOR, from_ms=0, to_ms=DAY_MS, billed_micro_usd=0
    )
    posted = ledger.rerate(bill)
    assert posted is not None and posted.debit == "capacity:a100"
    assert ledger.books.trial_balance() == 0 and ledger.books.fleet_micro_usd() == 0


CENTS = {
    "no rounding difference": ([10_000, 20_000], 3, [1, 2]),
    "a cent too few goes to the largest": (
        [3_333_333, 3_333_333, 3_333_334],
        1_000,
        [333, 333, 334],
    ),
    "a cent too many is taken from the largest": ([5_000, 5_000, 15_000], 3, [1, 1, 1]),
    "of equal amounts the first is the largest": ([4_000, 4_000, 4_000], 1, [1, 0, 0]),
    "no amounts": ([], 0, []),
}


@pytest.mark.parametrize("sentence", CENTS)
def test_rounded_cents_sum_to_the_total(sentence: str) -> None:
    amounts, total, cents = CENTS[sentence]
    assert cents_of(amounts, total) == cents
    assert sum(cents) == total


@pytest.mark.parametrize(("begin", "end"), [(1, DAY_MS), (0, DAY_MS - 1), (DAY_MS, DAY_MS)])
def test_a_period_that_is_not_whole_days_is_rejected(begin: int, end: int) -> None:
    with pytest.raises(UserError, match="whole days"):
        statements(a_day().books(24), StatementRequest(tenants=TENANTS, from_ms=begin, to_ms=end))


def test_unused_quota_above_a_queue_counts_once() -> None:
    """Red uses 4 with a quota of 2: 2 count against its team's 4, so 2 of those and blue's 2 are unused."""
    tenants: tuple[Tenant, ...] = (
        tenant("research", None, {FLAVOR: 4}),
        queue("red", "research", {FLAVOR: 2}),
        queue("blue", None, {FLAVOR: 2}),
    )
    scene = Scene().run("r", gpus(0, 1, 2, 3)).succeed("r", 24)
    terms = StatementRequest(
        tenants=tenants, from_ms=0, to_ms=DAY_MS, idle=IdlePolicy.QUOTA_OWNER, payers=()
    )
    assert paid(statements(scene.books(24), terms)) == {"blue": 96, "research": 192 + 96}


# -- savings -----------------------------------------------------------------------------------------


def test_savings_against_named_baselines() -> None:
    """On-demand a node costs $40. A GPU shared by four is one GPU; unshared it would be four."""
    scene = Scene()
    for number in range(4):
        scene.run(f"s{number}", share_of(0, 25))
    scene.run("w", gpus(1, 2, 3))
    result = {
        one.baseline: (one.baseline_micro_usd, one.cost_micro_usd, one.saved_micro_usd)
        for one in savings(scene.books(1).hour_rows(), {"a100": 40 * USD})
    }
    assert result == {
        Baseline.ON_DEMAND_SAME_HOURS: (40 * USD, 16 * USD, 24 * USD),
        Baseline.ON_DEMAND_WHILE_USED: (20 * USD, 16 * USD, 4 * USD),
        Baseline.NO_SHARING: (14 * USD, 8 * USD, 6 * USD),
    }


def test_a_cheaper_baseline_is_a_negative_saving() -> None:
    rows = Scene().run("a", gpus(0)).books(1).hour_rows()
    used = savings(rows, {"a100": 40 * USD})[1]
    assert (used.saved_micro_usd, used.saved_milli) == (-11 * USD, -2_200)


def test_only_pools_that_are_not_on_demand_need_a_price() -> None:
    scene = Scene(pool("cloud", market=Market.ON_DEMAND, usd_per_node_hour=40.0))
    assert savings(scene.books(1).hour_rows(), {})[0].saved_micro_usd == 0
    with pytest.raises(UserError, match="a100"):
        savings(Scene().books(1).hour_rows(), {})

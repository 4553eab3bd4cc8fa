"""Reports, changes and exports of one day computed by hand (see ``test_statement.a_day``)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from bursar.accounting.ledger.books import Books
from bursar.accounting.reports.focus import COLUMNS, DECIMALS, Issuer, focus_rows, write_decimal
from bursar.accounting.reports.group_by import NO_LABEL, OLDER, UNKNOWN, Naming, read_axes
from bursar.accounting.reports.line_item import line_items
from bursar.accounting.reports.report import CostReport, changes, report, total_change
from bursar.accounting.reports.statement import PLATFORM, StatementRequest, statements, without_jobs
from bursar.model import event as ev
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job_labels import JobLabel
from bursar.model.units import DAY_MS, HOUR_MS
from tests.accounting.reports.test_statement import FLAVOR, TEAMS, TENANTS, USD, a_day
from tests.accounting.scene import Scene, gpus, share_of
from tests.support import pool, queue, tenant

TAGS = {"r": JobLabel(owner="ann", name="train", labels={"project": "atlas"})}


def books() -> Books:
    """The day, with a bill of $480 for a metered cost of $384."""
    ledger, _ = a_day().ledger(24)
    ledger.apply(
        ev.BillReceived(
            at_ms=3 * DAY_MS,
            pool="a100",
            flavor=FLAVOR,
            from_ms=0,
            to_ms=DAY_MS,
            billed_micro_usd=480 * USD,
        )
    )
    return ledger.books.between(0, DAY_MS)


def dollars_by(by: str) -> dict[tuple[str, ...], int]:
    result = report(books(), read_axes(by), Naming(TENANTS, TAGS))
    assert result.total.total_micro_usd == 480 * USD
    return {row.keys: row.total_micro_usd // USD for row in result.rows}


BY_HAND: dict[str, dict[tuple[str, ...], int]] = {
    "team": {("product",): 96, ("research",): 96, (PLATFORM,): 288},
    "project": {("blue",): 96, ("red",): 96, (PLATFORM,): 288},
    "user": {(UNKNOWN,): 96, ("ann",): 96, (PLATFORM,): 288},
    "label:project": {(NO_LABEL,): 96, ("atlas",): 96, (PLATFORM,): 288},
    "job": {("b",): 96, ("r",): 96, (PLATFORM,): 288},
    "gpu": {("a100-80gb",): 480},
    "market": {("owned",): 480},
    "pool": {("a100",): 480},
    "day": {("1970-01-01",): 480},
    "team,market": {("product", "owned"): 96, ("research", "owned"): 96, (PLATFORM, "owned"): 288},
}


@pytest.mark.parametrize("by", BY_HAND)
def test_rows_along_each_axis(by: str) -> None:
    assert dollars_by(by) == BY_HAND[by]
    assert list(dollars_by(by)) == list(BY_HAND[by])


def test_a_row_has_usage_waste_idle_and_adjustment() -> None:
    result = report(books(), read_axes("gpu"), Naming(TENANTS))
    row = result.rows[0]
    assert (row.usage_micro_usd, row.waste_micro_usd) == (144 * USD, 48 * USD)
    assert (row.idle_micro_usd, row.adjustment_micro_usd) == (192 * USD, 96 * USD)
    assert (row.gpu_milli_ms, row.idle_gpu_milli_ms) == (96_000 * HOUR_MS, 96_000 * HOUR_MS)
    assert row.jobs == 2


def test_a_report_of_some_queues_contains_only_their_costs() -> None:
    copied = books().between(0, DAY_MS, frozenset({"red"}))
    result = report(copied, read_axes("team"), Naming(TENANTS))
    assert [row.keys for row in result.rows] == [("research",)]
    assert result.total.total_micro_usd == 96 * USD and result.total.idle_micro_usd == 0


def test_days_outside_the_range_are_not_in_the_copy() -> None:
    assert books().between(DAY_MS, 2 * DAY_MS).hour_rows() == []
    assert report(Books(), read_axes("team"), Naming(TENANTS)).rows == ()


def test_folded_days_are_reported_without_job_detail() -> None:
    old = books()
    old.fold(DAY_MS)
    result = report(old, read_axes("user"), Naming(TENANTS, TAGS))
    assert {row.keys[0]: row.total_micro_usd // USD for row in result.rows} == {
        OLDER: 192,
        PLATFORM: 288,
    }


TREES = {
    "teams are below the one organisation": (TENANTS, "red", ("research", "red")),
    "several roots are teams themselves": (
        (tenant("research"), queue("red", "research"), tenant("product")),
        "red",
        ("research", "red"),
    ),
    "a queue alone is team and project": ((queue("red"),), "red", ("red", "red")),
    "a queue that no longer exists is its own team": (TENANTS, "green", ("green", "green")),
    "a deep tree has its project below the team": (
        (
            tenant("acme"),
            tenant("research", "acme"),
            tenant("vision", "research"),
            queue("red", "vision"),
        ),
        "red",
        ("research", "vision"),
    ),
}


@pytest.mark.parametrize("tree", TREES)
def test_teams_and_projects(tree: str) -> None:
    tenants, name, (team, project) = TREES[tree]
    naming = Naming(tenants)
    assert (naming.team_of(name), naming.project_of(name)) == (team, project)


@pytest.mark.parametrize("text", ["", "colour", "label", "team:x", "team,team", "a,b,c,d", "team,"])
def test_unknown_axes_are_rejected(text: str) -> None:
    with pytest.raises(UserError) as refused:
        read_axes(text)
    assert refused.value.code == "unknown-dimension"


# -- changes -------------------------------------------------------------------------------------------


def report_of(scene: Scene, day: int) -> CostReport:
    from_ms = day * DAY_MS
    day_books = scene.books(48).between(from_ms, from_ms + DAY_MS)
    return report(day_books, read_axes("team"), Naming(TENANTS))


def test_changes_include_every_row_of_either_period() -> None:
    scene = Scene().run("r", gpus(0, 1)).succeed("r", 12)
    scene = scene.run("b", gpus(0, 1, 2, 3), at=24, queue="blue").succeed("b", 36)
    rows = changes(report_of(scene, 0), report_of(scene, 1))
    assert [(one.keys[0], one.micro_usd // USD, one.permille) for one in rows] == [
        ("product", 96, None),
        (PLATFORM, -48, -143),
        ("research", -48, -1_000),
    ]
    assert total_change(report_of(scene, 0), report_of(scene, 1)).micro_usd == 0


# -- lines and FOCUS -----------------------------------------------------------------------------------


def test_line_items_sum_to_the_bill_and_name_team_job_and_owner() -> None:
    lines = list(line_items(books(), Naming(TENANTS, TAGS)))
    assert sum(line.micro_usd for line in lines) == 480 * USD
    kinds = [(line.kind.value, line.team, line.job_id, line.micro_usd // USD) for line in lines]
    assert kinds == [
        ("usage", "product", "b", 96),
        ("usage", "research", "r", 48),
        ("waste", "research", "r", 48),
        ("adjustment", "", "", 96),
        ("idle", "", "", 192),
    ]
    line = next(line for line in lines if line.job_id == "r")
    assert (line.user, line.job_name, line.labels) == ("ann", "train", {"project": "atlas"})


def test_focus_rows_have_every_column_and_sum_to_the_bill() -> None:
    lines = line_items(books(), Naming(TENANTS, TAGS))
    rows = list(focus_rows(lines, Issuer(organisation="acme")))
    assert all(tuple(row) == COLUMNS for row in rows)
    for name in ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"):
        assert sum(Decimal(str(row[name])) for row in rows) == 480
    usage = rows[1]
    assert (usage["ResourceId"], usage["SubAccountId"]) == ("r", "research")
    assert (usage["ChargeCategory"], usage["PricingCategory"]) == ("Usage", "Standard")
    assert (usage["ConsumedQuantity"], usage["ConsumedUnit"]) == ("24.0", "GPU-Hours")
    assert usage["ChargePeriodStart"] == "1970-01-01T00:00:00Z"
    assert usage["BillingPeriodEnd"] == "1970-02-01T00:00:00Z"
    bill = next(row for row in rows if row["ChargeCategory"] == "Adjustment")
    assert bill["PricingQuantity"] is None and bill["ResourceType"] == "Pool"
    assert all("." in str(row[name]) for row in rows for name in DECIMALS if row[name] is not None)


def test_focus_prices_spot_as_dynamic_and_counts_jobs_without_gpus_in_cpu_hours() -> None:
    spot = pool("cheap", gpus=8, cpu=96, memory_gib=1024, usd_per_node_hour=8.0, market=Market.SPOT)
    task = gpus(node="cheap-0001", cpu=48)
    scene = Scene(spot).run("r", task).succeed("r", 2)
    rows = list(focus_rows(line_items(scene.books(2), Naming(TENANTS)), Issuer(organisation="x")))
    assert {row["PricingCategory"] for row in rows} == {"Dynamic"}
    assert (rows[0]["ConsumedQuantity"], rows[0]["ConsumedUnit"]) == ("96.0", "vCPU-Hours")


DECIMAL_TEXTS = {
    0: "0.0",
    1: "0.000001",
    1_500_000: "1.5",
    -2_000_000: "-2.0",
    12_345_678: "12.345678",
}


@pytest.mark.parametrize("amount", DECIMAL_TEXTS)
def test_decimals_are_exact(amount: int) -> None:
    assert write_decimal(amount, USD) == DECIMAL_TEXTS[amount]


# -- statements ----------------------------------------------------------------------------------------


def test_many_small_jobs_are_rounded_as_one_line() -> None:
    """A hundred jobs of 0.04 cents are 4 cents together, not a hundred lines of 0 cents."""
    scene = Scene(pool("a100", gpus=8, cpu=96, memory_gib=1024, usd_per_node_hour=0.32))
    for number in range(100):
        name, at = f"j{number:03}", number / 100
        scene = scene.run(name, share_of(0, 100), at=at).succeed(name, at + 0.01)
    result = statements(
        scene.books(24), StatementRequest(tenants=TENANTS, from_ms=0, to_ms=DAY_MS, payers=TEAMS)
    )
    research = result.of("research")
    assert research is not None
    short = without_jobs(research)
    assert [(line.cents, line.queue, line.job_id) for line in short.lines] == [(4, "red", "")]
    assert short.cents == research.cents == sum(line.cents for line in research.lines)

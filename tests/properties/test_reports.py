"""Every report, export and statement sums to the cost of the fleet."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from bursar.accounting.ledger.meter import LATE_MS
from bursar.accounting.reports.focus import Issuer, focus_rows
from bursar.accounting.reports.group_by import Dimension, GroupBy, Naming, read_axes
from bursar.accounting.reports.line_item import line_items
from bursar.accounting.reports.report import changes, report, total_change
from bursar.model import event as ev
from bursar.model.jobs.job_labels import JobLabel
from bursar.model.units import DAY_MS, HOUR_MS, USD_MICRO
from tests.properties.random_steps import ANY_SCRIPT, Script
from tests.properties.test_ledger import log_of, rows
from tests.support.book_views import by_queue, replay

EVERY_AXIS = tuple(
    GroupBy(dimension=one, label="team" if one is Dimension.LABEL else "") for one in Dimension
)
AXES = st.lists(st.sampled_from(EVERY_AXIS), min_size=1, max_size=3, unique=True)


def naming_of(script: Script) -> Naming:
    jobs = [f"j{number}" for number in range(50)]
    tags = {name: JobLabel(owner=name[-1:], labels={"team": name[:2]}) for name in jobs}
    return Naming(tuple(script.world.tenants), tags)


@given(ANY_SCRIPT, AXES)
def test_rows_of_every_dimension_sum_to_the_fleet_cost(script: Script, axes: list[GroupBy]) -> None:
    log, until_ms = log_of(script)
    books = replay(log, until_ms)
    found = report(books, axes, naming_of(script))
    assert sum(row.total_micro_usd for row in found.rows) == books.fleet_micro_usd()
    assert found.total.total_micro_usd == books.fleet_micro_usd()
    assert len({row.keys for row in found.rows}) == len(found.rows)
    whole = books.between(0, until_ms + DAY_MS)
    assert rows(whole) == rows(books)
    assert report(whole, axes, naming_of(script)) == found


@given(ANY_SCRIPT)
def test_reports_of_periods_and_subtrees_add_up(script: Script) -> None:
    log, until_ms = log_of(script)
    books = replay(log, until_ms)
    naming, by_team = naming_of(script), read_axes("team")
    days = range(0, until_ms + DAY_MS, DAY_MS)
    parts = [report(books.between(day, day + DAY_MS), by_team, naming) for day in days]
    assert sum(one.total.total_micro_usd for one in parts) == books.fleet_micro_usd()
    queues = [one.name for one in script.world.tenants if one.is_queue]
    alone = [books.between(0, until_ms + DAY_MS, frozenset({queue})) for queue in queues]
    used = sum(report(one, by_team, naming).total.total_micro_usd for one in alone)
    assert used == sum(by_queue(books).values())
    first, last = parts[0], parts[-1]
    moved = sum(one.micro_usd for one in changes(first, last))
    assert moved == total_change(first, last).micro_usd


@given(ANY_SCRIPT)
def test_exports_contain_all_costs(script: Script) -> None:
    log, until_ms = log_of(script)
    books = replay(log, until_ms)
    lines = list(line_items(books, naming_of(script)))
    assert sum(line.micro_usd for line in lines) == books.fleet_micro_usd()
    billed = [
        Decimal(str(row["BilledCost"])) for row in focus_rows(lines, Issuer(organisation="x"))
    ]
    assert sum(billed) * USD_MICRO == books.fleet_micro_usd()


@given(ANY_SCRIPT, st.integers(0, 10**12), st.data())
def test_after_a_bill_the_ledger_total_is_the_billed_amount(
    script: Script, billed: int, data: st.DataObject
) -> None:
    """Also when the log is replayed, and without changing earlier postings."""
    log, until_ms = log_of(script)
    at_ms = until_ms + HOUR_MS + LATE_MS
    over_ms = (at_ms - LATE_MS) // HOUR_MS * HOUR_MS
    pool = data.draw(st.sampled_from(script.world.fleet.pools))
    bill = ev.BillReceived(
        at_ms=at_ms,
        pool=pool.name,
        flavor=pool.flavor,
        from_ms=0,
        to_ms=over_ms,
        billed_micro_usd=billed,
    )
    plain = replay([*log], at_ms)
    books = replay([*log, bill], at_ms)
    assert books.trial_balance() == 0
    assert books.capacity_micro_usd(pool.name, pool.flavor, 0, over_ms) == billed
    assert rows(replay([*log, bill], at_ms)) == rows(books)
    moved = ("capacity:", "adjustment:")
    before = [row for row in plain.hour_rows() if not row.account.startswith(moved)]
    after = [row for row in books.hour_rows() if not row.account.startswith(moved)]
    assert before == after
    again = replay([*log, bill, bill], at_ms)
    assert again.balances() == books.balances()

"""Whatever is submitted and happens, a hard budget is not overdrawn, and its numbers are the books'."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bursar.accounting.ledger.entry import QUEUE_KINDS
from bursar.codec import from_text, to_text
from bursar.control.live.live_ledger import LedgerSnapshot, LiveLedger
from bursar.model.event import BudgetLevelChanged, FleetDeclared
from bursar.model.tenants.tenant import BudgetPeriod, Tenant
from tests.properties.money_life import Act, Life, acts, tenants
from tests.properties.plays import ANY_SCRIPT, Play, Script
from tests.support.book_views import by_day, by_job, by_queue

TREES = st.builds(
    tenants,
    st.integers(1, 60),
    st.none() | st.integers(1, 40),
    st.sampled_from([BudgetPeriod.DAY, BudgetPeriod.MONTH]),
)


def lived(tree: tuple[Tenant, ...], plan: list[Act]) -> Life:
    life = Life(tree)
    for act in plan:
        life.act(act)
    return life


@given(TREES, acts())
def test_what_is_committed_never_exceeds_a_hard_budget(
    tree: tuple[Tenant, ...], plan: list[Act]
) -> None:
    life = Life(tree)
    for act in plan:
        life.act(act)
        for one in life.statuses():
            assert one.committed_micro_usd <= one.amount_micro_usd, (act, one)
            quick = life.books.budgets.committed(one.tenant, life.now_ms)
            assert quick.micro_usd >= one.committed_micro_usd - len(life.state.jobs), (act, one)


@given(TREES, acts())
def test_after_all_jobs_end_nothing_is_held_and_every_view_agrees(
    tree: tuple[Tenant, ...], plan: list[Act]
) -> None:
    life = lived(tree, plan)
    life.end_everything()
    assert not life.state.jobs
    spending, books = life.books.spending, life.books.ledger.at(life.now_ms)
    assert not spending.holds and not any(spending.held.values())
    assert not any(spending.unheld.values())
    jobs, queues, days_sums = by_job(books), by_queue(books), by_day(books, QUEUE_KINDS)
    fleet = sum(amount for kind, amount in books.by_kind().items() if kind in QUEUE_KINDS)
    assert sum(jobs.values()) == sum(queues.values()) == sum(days_sums.values()) == fleet
    assert {queue: sum(days.values()) for queue, days in spending.days.items()} == queues
    days: dict[int, int] = {}
    for of_queue in spending.days.values():
        for day_ms, amount in of_queue.items():
            days[day_ms] = days.get(day_ms, 0) + amount
    assert days == days_sums
    for one in life.statuses():
        queues = life.books.budgets.tree.queues[one.tenant]
        spent = sum(
            amount
            for queue in queues
            for day_ms, amount in spending.days.get(queue, {}).items()
            if one.period_start_ms <= day_ms < one.period_end_ms
        )
        assert one.spent_micro_usd == spent and one.held_micro_usd == 0


@given(TREES, acts())
def test_replaying_the_log_gives_the_same_levels_and_holds(
    tree: tuple[Tenant, ...], plan: list[Act]
) -> None:
    life = lived(tree, plan)
    again, known = LiveLedger(), {}
    for event in life.log:
        if isinstance(event, BudgetLevelChanged):
            found = again.budgets.statuses(event.at_ms)
            (one,) = (standing for standing in found if standing.tenant == event.tenant)
            assert (one.level, one.spent_micro_usd) == (event.level, event.spent_micro_usd)
            known[event.tenant] = event
        again.apply(event)
    assert known == life.state.budgets.levels
    assert again.spending.to_snapshot() == life.books.spending.to_snapshot()


@given(TREES, acts(), st.integers(0, 200))
def test_budgets_restored_at_any_event_continue_identically(
    tree: tuple[Tenant, ...], plan: list[Act], cut: int
) -> None:
    life = lived(tree, plan)
    first = LiveLedger()
    for event in life.log[:cut]:
        first.apply(event)
    second = LiveLedger.restore(from_text(LedgerSnapshot, to_text(first.to_snapshot())))
    second.budgets.set_tenants(tree if cut else ())
    for event in life.log[cut:]:
        second.apply(event)
    assert isinstance(life.log[0], FleetDeclared)
    assert second.budgets.statuses(life.now_ms) == life.statuses()


@given(ANY_SCRIPT)
def test_the_ledger_and_the_state_agree_on_open_jobs(script: Script) -> None:
    play, world = Play(script.world).run(script), script.world
    declared = FleetDeclared(
        at_ms=0, fleet=world.fleet, tenants=tuple(world.tenants), policies=world.policies
    )
    books = LiveLedger()
    for event in (declared, *play.stage.log):
        books.apply(event)
    assert books.ledger.meter.jobs.keys() == play.stage.state.jobs.keys()
    assert sum(books.spending.unheld.values()) == len(play.stage.state.jobs)

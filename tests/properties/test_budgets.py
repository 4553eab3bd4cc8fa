"""A hard budget is never exceeded, and its amounts agree with the ledger."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bursar.accounting.ledger.entry import QUEUE_KINDS
from bursar.codec import from_text, to_text
from bursar.control.live.live_ledger import LedgerSnapshot, LiveLedger
from bursar.model.event import BudgetLevelChanged, FleetDeclared
from bursar.model.tenants.tenant import BudgetPeriod, Tenant
from tests.properties.budget_scenario import Action, BudgetScenario, actions, tenants
from tests.properties.random_steps import ANY_SCRIPT, Script, StepRunner
from tests.support.book_views import by_day, by_job, by_queue

TREES = st.builds(
    tenants,
    st.integers(1, 60),
    st.none() | st.integers(1, 40),
    st.sampled_from([BudgetPeriod.DAY, BudgetPeriod.MONTH]),
)


def run_actions(tree: tuple[Tenant, ...], plan: list[Action]) -> BudgetScenario:
    scenario = BudgetScenario(tree)
    for action in plan:
        scenario.apply_action(action)
    return scenario


@given(TREES, actions())
def test_what_is_committed_never_exceeds_a_hard_budget(
    tree: tuple[Tenant, ...], plan: list[Action]
) -> None:
    scenario = BudgetScenario(tree)
    for action in plan:
        scenario.apply_action(action)
        for one in scenario.statuses():
            assert one.committed_micro_usd <= one.amount_micro_usd, (action, one)
            quick = scenario.books.budgets.committed(one.tenant, scenario.now_ms)
            assert quick.micro_usd >= one.committed_micro_usd - len(scenario.state.jobs), (
                action,
                one,
            )


@given(TREES, actions())
def test_after_all_jobs_end_nothing_is_held_and_every_view_agrees(
    tree: tuple[Tenant, ...], plan: list[Action]
) -> None:
    scenario = run_actions(tree, plan)
    scenario.end_everything()
    assert not scenario.state.jobs
    spending, books = scenario.books.spending, scenario.books.ledger.at(scenario.now_ms)
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
    for one in scenario.statuses():
        queues = scenario.books.budgets.tree.queues[one.tenant]
        spent = sum(
            amount
            for queue in queues
            for day_ms, amount in spending.days.get(queue, {}).items()
            if one.period_start_ms <= day_ms < one.period_end_ms
        )
        assert one.spent_micro_usd == spent and one.held_micro_usd == 0


@given(TREES, actions())
def test_replaying_the_log_gives_the_same_levels_and_holds(
    tree: tuple[Tenant, ...], plan: list[Action]
) -> None:
    scenario = run_actions(tree, plan)
    again, known = LiveLedger(), {}
    for event in scenario.log:
        if isinstance(event, BudgetLevelChanged):
            found = again.budgets.statuses(event.at_ms)
            (one,) = (status for status in found if status.tenant == event.tenant)
            assert (one.level, one.spent_micro_usd) == (event.level, event.spent_micro_usd)
            known[event.tenant] = event
        again.apply(event)
    assert known == scenario.state.budgets.levels
    assert again.spending.to_snapshot() == scenario.books.spending.to_snapshot()


@given(TREES, actions(), st.integers(0, 200))
def test_budgets_restored_at_any_event_continue_identically(
    tree: tuple[Tenant, ...], plan: list[Action], cut: int
) -> None:
    scenario = run_actions(tree, plan)
    first = LiveLedger()
    for event in scenario.log[:cut]:
        first.apply(event)
    second = LiveLedger.restore(from_text(LedgerSnapshot, to_text(first.to_snapshot())))
    second.budgets.set_tenants(tree if cut else ())
    for event in scenario.log[cut:]:
        second.apply(event)
    assert isinstance(scenario.log[0], FleetDeclared)
    assert second.budgets.statuses(scenario.now_ms) == scenario.statuses()


@given(ANY_SCRIPT)
def test_the_ledger_and_the_state_agree_on_open_jobs(script: Script) -> None:
    runner, world = StepRunner(script.world).run(script), script.world
    declared = FleetDeclared(
        at_ms=0, fleet=world.fleet, tenants=tuple(world.tenants), policies=world.policies
    )
    books = LiveLedger()
    for event in (declared, *runner.harness.log):
        books.apply(event)
    assert books.ledger.meter.jobs.keys() == runner.harness.state.jobs.keys()
    assert sum(books.spending.unheld.values()) == len(runner.harness.state.jobs)

"""The status of budgets and the times of their checks, in hours and dollars."""

from __future__ import annotations

from dataclasses import replace

from bursar.accounting.budgets.budget import BudgetTree
from bursar.accounting.budgets.budget_monitor import BudgetMonitor
from bursar.accounting.budgets.spending import SpendingTotals
from bursar.accounting.ledger.meter import Meter
from bursar.model.event import AttemptAssigned, BudgetLevelChanged, JobCancelled, JobSubmitted
from bursar.model.tenants.tenant import (
    Budget,
    BudgetAction,
    BudgetPeriod,
    BudgetStep,
    Enforcement,
    Tenant,
)
from bursar.model.units import HOUR_MS, USD_MICRO
from tests.accounting.scene import Scene, gpus, ms
from tests.support import pool, queue, tenant

EIGHT_DOLLARS = pool("a100", gpus=8, usd_per_node_hour=8.0)


def budget(usd: float, *steps: tuple[int, BudgetAction], **changes: object) -> Budget:
    plain = Budget(
        amount_micro_usd=round(usd * USD_MICRO),
        period=BudgetPeriod.DAY,
        steps=tuple(BudgetStep(at_percent=at, action=action) for at, action in steps),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def lab(of_lab: Budget | None, of_red: Budget | None = None) -> tuple[Tenant, ...]:
    """A lab with the queues red and blue."""
    red = replace(queue("red", "lab"), budget=of_red)
    return replace(tenant("lab"), budget=of_lab), red, queue("blue", "lab")


def monitor_of(scene: Scene, tenants: tuple[Tenant, ...]) -> BudgetMonitor:
    spending = SpendingTotals()
    meter = Meter(spending.post)
    monitor = BudgetMonitor(meter, spending)
    for event in scene.log:
        meter.apply(event)
        monitor.apply(event)
    monitor.set_tenants(tenants)
    return monitor


def held(scene: Scene, job_id: str, usd: float) -> Scene:
    """Submits a job of red with a hold."""
    scene.submit(job_id)
    last = scene.log[-1]
    assert isinstance(last, JobSubmitted)
    scene.log[-1] = replace(last, hold_micro_usd=round(usd * USD_MICRO))
    return scene


def test_a_running_job_counts_as_spent_and_exhausts_the_budget() -> None:
    scene = Scene(EIGHT_DOLLARS).run("j", gpus(0, 1))
    (one,) = monitor_of(scene, lab(budget(10))).statuses(ms(1.5))
    assert (one.spent_micro_usd, one.held_micro_usd) == (3 * USD_MICRO, 0)
    assert one.micro_usd_per_hour == 2 * USD_MICRO
    assert one.exhausted_at_ms == ms(5)
    assert (one.percent, one.left_micro_usd) == (30, 7 * USD_MICRO)


def test_a_budget_counts_all_queues_below_it_and_no_others() -> None:
    scene = Scene(EIGHT_DOLLARS).run("j", gpus(0, 1)).run("k", gpus(2), queue="blue")
    statuses = monitor_of(scene, lab(budget(10), budget(5))).statuses(ms(1))
    assert {one.tenant: one.spent_micro_usd for one in statuses} == {
        "lab": 3 * USD_MICRO,
        "red": 2 * USD_MICRO,
    }


def test_charges_of_a_job_reduce_its_hold() -> None:
    scene = held(Scene(EIGHT_DOLLARS), "j", 6).assign("j", gpus(0, 1))
    monitor = monitor_of(scene, lab(budget(10, enforcement=Enforcement.HARD)))
    for hours, spent, remaining in ((0, 0, 6), (1, 2, 4), (2.5, 5, 1), (3, 6, 0), (4, 8, 0)):
        (one,) = monitor.statuses(ms(hours))
        assert one.spent_micro_usd == spent * USD_MICRO
        assert one.held_micro_usd == remaining * USD_MICRO
        assert monitor.committed("lab", ms(hours)).micro_usd <= 8 * USD_MICRO


def test_a_hold_ends_with_its_job() -> None:
    scene = held(Scene(EIGHT_DOLLARS), "j", 6).assign("j", gpus(0, 1)).succeed("j", at=0.5)
    held(scene, "never ran", 3)
    scene.add(JobCancelled(at_ms=ms(0.6), job_id="never ran"))
    (one,) = monitor_of(scene, lab(budget(10))).statuses(ms(1))
    assert (one.spent_micro_usd, one.held_micro_usd) == (USD_MICRO, 0)


def test_jobs_older_than_the_budget_count_with_what_they_have_spent() -> None:
    scene = held(Scene(EIGHT_DOLLARS), "j", 6).assign("j", gpus(0, 1)).run("old", gpus(2))
    monitor = monitor_of(scene, lab(budget(10, enforcement=Enforcement.HARD)))
    assert monitor.committed("lab", ms(0.5)).micro_usd == 6.5 * USD_MICRO


def test_a_new_day_starts_at_zero_although_the_last_hour_is_not_posted_yet() -> None:
    scene = Scene(EIGHT_DOLLARS).run("j", gpus(0, 1), at=22.5)
    monitor = monitor_of(scene, lab(budget(10)))
    assert [one.spent_micro_usd for one in monitor.statuses(ms(23.75))] == [2_500_000]
    assert [one.spent_micro_usd for one in monitor.statuses(ms(24.25))] == [500_000]


def test_a_check_is_due_when_a_step_is_reached_and_not_before() -> None:
    scene = Scene(EIGHT_DOLLARS).run("j", gpus(0, 1))
    tenants = lab(budget(10, (40, BudgetAction.NOTIFY), (80, BudgetAction.BLOCK_NEW)))
    monitor = monitor_of(scene, tenants)
    known: dict[str, BudgetLevelChanged] = {}
    seen = []
    for _ in range(5):
        now_ms = max(1, monitor.next_check_ms)
        for change in monitor.check(known, now_ms):
            known[change.tenant] = change
            seen.append((change.level, round((change.at_ms - 1) / HOUR_MS, 6)))
        assert monitor.check(known, monitor.next_check_ms - 1) == []
    assert seen == [(40, 2.0), (80, 4.0), (0, 24.0), (40, 26.0)]


def test_a_start_makes_the_next_check_earlier() -> None:
    scene = Scene(EIGHT_DOLLARS).run("j", gpus(0, 1))
    monitor = monitor_of(scene, lab(budget(10, (80, BudgetAction.NOTIFY))))
    monitor.check({}, 0)
    assert monitor.next_check_ms == ms(4) + 1
    more = len(scene.log)
    scene.submit("k", at=2).assign("k", gpus(2, 3), at=2)
    for event in scene.log[more:]:
        if isinstance(event, AttemptAssigned):
            priced = replace(event.placement, micro_usd_per_hour=2 * USD_MICRO)
            event = replace(event, placement=priced)
        monitor.meter.apply(event)
        monitor.apply(event)
    assert monitor.next_check_ms == ms(3) + 1


def test_a_larger_budget_resets_the_level() -> None:
    scene = Scene(EIGHT_DOLLARS).run("j", gpus(0, 1))
    monitor = monitor_of(scene, lab(budget(4, (50, BudgetAction.BLOCK_NEW))))
    (reached,) = monitor.check({}, ms(1) + 1)
    assert reached.level == 50
    monitor.set_tenants(lab(budget(400, (50, BudgetAction.BLOCK_NEW))))
    (reset,) = monitor.check({"lab": reached}, ms(1) + 2)
    assert (reset.level, reset.amount_micro_usd) == (0, 400 * USD_MICRO)


def test_no_check_is_scheduled_without_budgets() -> None:
    monitor = monitor_of(Scene(EIGHT_DOLLARS).run("j", gpus(0)), lab(None))
    assert monitor.next_check_ms == 1 << 62
    assert monitor.statuses(ms(1)) == []


def test_the_strongest_reached_step_counts() -> None:
    stepped = budget(100, (50, BudgetAction.BLOCK_NEW), (80, BudgetAction.NOTIFY))
    assert stepped.level_of(79 * USD_MICRO) == 50
    assert stepped.level_of(80 * USD_MICRO) == 80
    step = stepped.step_at(80)
    assert step is not None and step.action is BudgetAction.BLOCK_NEW


def test_the_default_steps_depend_on_the_enforcement() -> None:
    soft = Budget(amount_micro_usd=1)
    hard = replace(soft, enforcement=Enforcement.HARD)
    assert [one.action.value for one in soft.effective_steps] == ["notify", "block-borrowing"]
    assert [one.at_percent for one in hard.effective_steps] == [80, 90, 100]


def test_a_budget_of_zero_is_exhausted_from_the_start() -> None:
    assert replace(budget(0), enforcement=Enforcement.HARD).level_of(0) == 100


def test_hard_budgets_above_a_queue_are_listed_nearest_first() -> None:
    hard = budget(10, enforcement=Enforcement.HARD)
    tree = BudgetTree(lab(hard, hard))
    assert tree.hard_above == {"red": ("red", "lab"), "blue": ("lab",)}
    assert BudgetTree(lab(budget(10), None)).hard_above == {}

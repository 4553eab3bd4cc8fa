"""Forecasts worked out by hand, and what must hold of all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bursar.accounting.budgets.burn_down import BurnDown, SpendingHistory, burn_down
from bursar.model.units import DAY_MS, HOUR_MS

USD = 1_000_000
DAY = 10 * DAY_MS


def told(daily: list[int], spent: int, amount: int | None, *, left_days: int = 10) -> BurnDown:
    """It is midnight of day 40; the days before cost so much."""
    now_ms = 40 * DAY_MS
    days = {now_ms - (len(daily) - n) * DAY_MS: usd * USD for n, usd in enumerate(daily)}
    spending = SpendingHistory(
        from_ms=now_ms - 20 * DAY_MS,
        to_ms=now_ms + left_days * DAY_MS,
        now_ms=now_ms,
        spent_micro_usd=spent * USD,
        days=days,
        since_ms=now_ms - 20 * DAY_MS,
    )
    return burn_down(spending, None if amount is None else amount * USD)


def test_days_that_are_all_alike_leave_no_doubt() -> None:
    found = told([10] * 14, spent=140, amount=200)
    assert found.end_micro_usd == found.low_end_micro_usd == found.high_end_micro_usd == 240 * USD
    assert found.exhausted_ms == found.earliest_ms == found.latest_ms == 46 * DAY_MS
    assert found.left_micro_usd == 60 * USD
    assert found.basis == "the last 14 whole days cost $10.00 to $10.00"


def test_days_that_differ_make_a_band_around_the_same_middle() -> None:
    found = told([4, 16] * 7, spent=140, amount=200)
    assert found.end_micro_usd == 240 * USD
    assert found.low_end_micro_usd is not None and found.high_end_micro_usd is not None
    middle = (found.low_end_micro_usd + found.high_end_micro_usd) // 2
    assert abs(middle - 240 * USD) <= 1
    # t(13) = 1.350, deviation 6.2265, sqrt(10 + 100/14) = 4.1404
    assert abs(found.high_end_micro_usd - 240 * USD - 34.80 * USD) < 0.01 * USD
    assert found.exhausted_ms == 46 * DAY_MS
    assert found.earliest_ms is not None and found.latest_ms is not None
    assert found.earliest_ms < 46 * DAY_MS < found.latest_ms


def test_weekends_count_as_often_as_they_come() -> None:
    """Of 10 days only the last 7 are taken, so that no weekday counts twice."""
    week = [10, 10, 10, 10, 10, 0, 0]
    assert told([0, 0, 0, *week], spent=50, amount=None).micro_usd_per_day == round(50 / 7 * USD)


def test_what_is_spent_already_is_spent_now() -> None:
    found = told([10] * 7, spent=250, amount=200)
    assert found.exhausted_ms == found.earliest_ms == 40 * DAY_MS
    assert found.left_micro_usd == -50 * USD


def test_nothing_spent_never_runs_out() -> None:
    found = told([0] * 7, spent=0, amount=100)
    assert found.exhausted_ms is None and found.end_micro_usd == 0


def test_without_a_budget_there_is_nothing_to_use_up() -> None:
    found = told([10] * 7, spent=70, amount=None)
    assert found.exhausted_ms is None and found.left_micro_usd is None
    assert found.end_micro_usd == 170 * USD


def test_of_a_few_hours_there_is_a_rate_and_no_band() -> None:
    spending = SpendingHistory(
        from_ms=DAY,
        to_ms=DAY + 10 * DAY_MS,
        now_ms=DAY + 6 * HOUR_MS,
        spent_micro_usd=6 * USD,
        days={},
        since_ms=DAY,
    )
    found = burn_down(spending, 100 * USD)
    assert found.micro_usd_per_day == 24 * USD
    assert found.low_end_micro_usd is None and found.latest_ms is None
    assert found.exhausted_ms == DAY + 6 * HOUR_MS + 94 * HOUR_MS
    assert found.basis.startswith("only 6 h are known")


@given(
    st.lists(st.integers(0, 500), min_size=3, max_size=40),
    st.integers(0, 5_000),
    st.integers(1, 10_000),
    st.integers(0, 30),
)
def test_the_band_is_around_the_middle_and_dates_are_in_order(
    daily: list[int], spent: int, amount: int, left_days: int
) -> None:
    found = told(daily, spent, amount, left_days=left_days)
    assert found.low_end_micro_usd is not None and found.high_end_micro_usd is not None
    assert found.spent_micro_usd <= found.low_end_micro_usd <= found.high_end_micro_usd
    assert found.low_end_micro_usd <= max(found.end_micro_usd, found.spent_micro_usd)
    order = (found.earliest_ms, found.exhausted_ms, found.latest_ms)
    known = [one for one in order if one is not None]
    assert known == sorted(known)
    assert all(one is None or one >= 40 * DAY_MS for one in order)
    if found.exhausted_ms is not None:
        assert found.earliest_ms is not None
    if found.exhausted_ms is not None and found.exhausted_ms <= 40 * DAY_MS + left_days * DAY_MS:
        assert found.end_micro_usd >= amount * USD - found.micro_usd_per_day // 24 - 1

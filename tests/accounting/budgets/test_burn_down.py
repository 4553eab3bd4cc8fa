"""Forecasts computed by hand, and properties of every forecast."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bursar.accounting.budgets.burn_down import BurnDown, SpendingHistory, burn_down
from bursar.model.units import DAY_MS, HOUR_MS

USD = 1_000_000
DAY = 10 * DAY_MS


def forecast(daily: list[int], spent: int, amount: int | None, *, left_days: int = 10) -> BurnDown:
    """A forecast at midnight of day 40, after days with these costs."""
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


def test_identical_days_give_a_band_of_zero_width() -> None:
    result = forecast([10] * 14, spent=140, amount=200)
    assert (
        result.end_micro_usd == result.low_end_micro_usd == result.high_end_micro_usd == 240 * USD
    )
    assert result.exhausted_ms == result.earliest_ms == result.latest_ms == 46 * DAY_MS
    assert result.left_micro_usd == 60 * USD
    assert result.basis == "the last 14 whole days cost $10.00 to $10.00 each"


def test_different_days_give_a_band_around_the_mean() -> None:
    result = forecast([4, 16] * 7, spent=140, amount=200)
    assert result.end_micro_usd == 240 * USD
    assert result.low_end_micro_usd is not None and result.high_end_micro_usd is not None
    middle = (result.low_end_micro_usd + result.high_end_micro_usd) // 2
    assert abs(middle - 240 * USD) <= 1
    # t(13) = 1.350, deviation 6.2265, sqrt(10 + 100/14) = 4.1404
    assert abs(result.high_end_micro_usd - 240 * USD - 34.80 * USD) < 0.01 * USD
    assert result.exhausted_ms == 46 * DAY_MS
    assert result.earliest_ms is not None and result.latest_ms is not None
    assert result.earliest_ms < 46 * DAY_MS < result.latest_ms


def test_only_whole_weeks_are_averaged() -> None:
    """Of 10 days only the last 7 are used, so that no weekday counts twice."""
    week = [10, 10, 10, 10, 10, 0, 0]
    assert forecast([0, 0, 0, *week], spent=50, amount=None).micro_usd_per_day == round(
        50 / 7 * USD
    )


def test_an_exhausted_budget_is_exhausted_now() -> None:
    result = forecast([10] * 7, spent=250, amount=200)
    assert result.exhausted_ms == result.earliest_ms == 40 * DAY_MS
    assert result.left_micro_usd == -50 * USD


def test_a_budget_without_spending_is_never_exhausted() -> None:
    result = forecast([0] * 7, spent=0, amount=100)
    assert result.exhausted_ms is None and result.end_micro_usd == 0


def test_without_a_budget_there_is_a_forecast_but_no_date() -> None:
    result = forecast([10] * 7, spent=70, amount=None)
    assert result.exhausted_ms is None and result.left_micro_usd is None
    assert result.end_micro_usd == 170 * USD


def test_a_few_hours_give_a_rate_but_no_band() -> None:
    spending = SpendingHistory(
        from_ms=DAY,
        to_ms=DAY + 10 * DAY_MS,
        now_ms=DAY + 6 * HOUR_MS,
        spent_micro_usd=6 * USD,
        days={},
        since_ms=DAY,
    )
    result = burn_down(spending, 100 * USD)
    assert result.micro_usd_per_day == 24 * USD
    assert result.low_end_micro_usd is None and result.latest_ms is None
    assert result.exhausted_ms == DAY + 6 * HOUR_MS + 94 * HOUR_MS
    assert result.basis.startswith("only 6 h are known")


@given(
    st.lists(st.integers(0, 500), min_size=3, max_size=40),
    st.integers(0, 5_000),
    st.integers(1, 10_000),
    st.integers(0, 30),
)
def test_the_band_contains_the_forecast_and_dates_are_in_order(
    daily: list[int], spent: int, amount: int, left_days: int
) -> None:
    result = forecast(daily, spent, amount, left_days=left_days)
    assert result.low_end_micro_usd is not None and result.high_end_micro_usd is not None
    assert result.spent_micro_usd <= result.low_end_micro_usd <= result.high_end_micro_usd
    assert result.low_end_micro_usd <= max(result.end_micro_usd, result.spent_micro_usd)
    order = (result.earliest_ms, result.exhausted_ms, result.latest_ms)
    known = [one for one in order if one is not None]
    assert known == sorted(known)
    assert all(one is None or one >= 40 * DAY_MS for one in order)
    if result.exhausted_ms is not None:
        assert result.earliest_ms is not None
    if result.exhausted_ms is not None and result.exhausted_ms <= 40 * DAY_MS + left_days * DAY_MS:
        assert result.end_micro_usd >= amount * USD - result.micro_usd_per_day // 24 - 1

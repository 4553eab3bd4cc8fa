"""Periods follow the calendar, compared with the standard library."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bursar.model.calendar import date_of, month_before, period_around, write_time
from bursar.model.tenants.tenant import BudgetPeriod
from bursar.model.units import DAY_MS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms(time: datetime) -> int:
    return int(time.timestamp()) * 1_000


def begins(period: BudgetPeriod, day: datetime) -> datetime:
    match period:
        case BudgetPeriod.DAY:
            return day
        case BudgetPeriod.WEEK:
            return day - timedelta(days=day.weekday())
        case BudgetPeriod.MONTH:
            return day.replace(day=1)
        case BudgetPeriod.QUARTER:
            return day.replace(day=1, month=(day.month - 1) // 3 * 3 + 1)
        case BudgetPeriod.YEAR:
            return day.replace(day=1, month=1)


@pytest.mark.parametrize("period", BudgetPeriod)
def test_periods_begin_and_end_with_the_calendar(period: BudgetPeriod) -> None:
    for day in range(-800, 60_000, 3):
        date = EPOCH + timedelta(days=day)
        assert date_of(day) == (date.year, date.month, date.day)
        from_ms, to_ms = period_around(period, day * DAY_MS + DAY_MS - 1)
        assert from_ms == ms(begins(period, date))
        assert to_ms > day * DAY_MS
        assert period_around(period, to_ms)[0] == to_ms
        assert period_around(period, to_ms - 1)[0] == from_ms


def test_the_month_before_january_is_december() -> None:
    assert month_before(ms(datetime(2027, 1, 31, 23, tzinfo=UTC))) == ms(
        datetime(2026, 12, 1, tzinfo=UTC)
    )


def test_times_are_written_in_utc() -> None:
    assert write_time(ms(datetime(2028, 2, 29, 7, 5, tzinfo=UTC))) == "2028-02-29 07:05 UTC"

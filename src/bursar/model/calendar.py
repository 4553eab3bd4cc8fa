"""Days, weeks, months, quarters and years (UTC) around a time, computed with integers.

The pure packages may use it: the time always comes from the caller.
"""

from __future__ import annotations

from functools import lru_cache

from bursar.model.tenants.tenant import BudgetPeriod
from bursar.model.units import DAY_MS, MINUTE_MS

_DAYS_IN_400_YEARS = 146_097
_MONDAY = 4
"""Day 4 since the epoch, 5 January 1970, was a Monday."""
_MONTHS_IN = {BudgetPeriod.MONTH: 1, BudgetPeriod.QUARTER: 3, BudgetPeriod.YEAR: 12}


def period_around(period: BudgetPeriod, at_ms: int) -> tuple[int, int]:
    """The start of the period that contains a time, and the start of the next one."""
    return _period_of_day(period, at_ms // DAY_MS)


@lru_cache(maxsize=1_024)
def _period_of_day(period: BudgetPeriod, day: int) -> tuple[int, int]:
    if period is BudgetPeriod.DAY:
        return day * DAY_MS, (day + 1) * DAY_MS
    if period is BudgetPeriod.WEEK:
        first = day - (day - _MONDAY) % 7
        return first * DAY_MS, (first + 7) * DAY_MS
    months = _MONTHS_IN[period]
    year, month, _ = date_of(day)
    begins = (year * 12 + month - 1) // months * months
    return _month_begins(begins) * DAY_MS, _month_begins(begins + months) * DAY_MS


def month_before(at_ms: int) -> int:
    """The start of the month before the one that contains a time."""
    return period_around(BudgetPeriod.MONTH, period_around(BudgetPeriod.MONTH, at_ms)[0] - 1)[0]


def date_of(day: int) -> tuple[int, int, int]:
    """Year, month and day of a day counted since the epoch.

    Years are counted from 1 March, so that the day which some of them lack comes last.
    """
    cycle, rest = divmod(day + 719_468, _DAYS_IN_400_YEARS)
    year = (rest - rest // 1_460 + rest // 36_524 - rest // 146_096) // 365
    in_year = rest - (365 * year + year // 4 - year // 100)
    shifted = (5 * in_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return cycle * 400 + year + (month <= 2), month, in_year - (153 * shifted + 2) // 5 + 1


def day_of_date(text: str) -> int:
    """The day since the epoch of a date such as ``2026-11-16``."""
    year, month, day = map(int, text.split("-"))
    return _month_begins(12 * year + month - 1) + day - 1


def _month_begins(months: int) -> int:
    """The day on which a month begins that is so many after January of year 0."""
    year, month = divmod(months, 12)
    shifted, year = (month + 10) % 12, year - (month < 2)
    cycle, rest = divmod(year, 400)
    in_cycle = rest * 365 + rest // 4 - rest // 100 + (153 * shifted + 2) // 5
    return cycle * _DAYS_IN_400_YEARS + in_cycle - 719_468


def write_time(at_ms: int) -> str:
    """``2026-12-01 00:00 UTC``."""
    day, rest_ms = divmod(at_ms, DAY_MS)
    year, month, number = date_of(day)
    hours, minutes = divmod(rest_ms // MINUTE_MS, 60)
    return f"{year:04}-{month:02}-{number:02} {hours:02}:{minutes:02} UTC"

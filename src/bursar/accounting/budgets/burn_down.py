"""Forecast of a tenant's spending until its period ends, and the day its budget is exhausted.

The forecast repeats the whole days of the last four weeks, in whole weeks if there are any, because weekends
differ. Days are assumed independent. The band covers their variance and the uncertainty of their mean
(Student's t, 80 %), not a change of workload. With fewer than three whole days there is a rate but no band.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from bursar.model.units import DAY_MS, HOUR_MS, write_usd

MOST_DAYS = 28
FEWEST_DAYS = 3
DAYS_PER_WEEK = 7
LONGEST_HOURS = 3_660 * 24
"""Ten years: a budget that lasts longer has no date of exhaustion."""
T90 = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372, 1.363, 1.356, 1.350)
"""90 % quantile of Student's t for 1 to 13 degrees of freedom."""
T90_MANY = 1.33


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingHistory:
    """What a tenant spent in its period so far, and on each known whole day before today."""

    from_ms: int
    to_ms: int
    now_ms: int
    spent_micro_usd: int
    days: Mapping[int, int]
    """By day. Includes days without spending, but no days before the books began."""
    since_ms: int
    """When the books began, or the period, whichever is later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnDown:
    """``low`` and ``high`` are the 80 % band; None if too few days are known."""

    spent_micro_usd: int
    micro_usd_per_day: int
    end_micro_usd: int
    low_end_micro_usd: int | None
    high_end_micro_usd: int | None
    amount_micro_usd: int | None
    exhausted_ms: int | None
    """When the amount is spent at this rate; None without an amount, or beyond ten years."""
    earliest_ms: int | None
    latest_ms: int | None
    basis: str

    @property
    def left_micro_usd(self) -> int | None:
        return (
            None if self.amount_micro_usd is None else self.amount_micro_usd - self.spent_micro_usd
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rate:
    """Mean and standard deviation of a day's cost, and the number of days they come from."""

    daily: float
    spread: float
    days: int
    basis: str

    def expected(self, spent: int, days: float) -> float:
        return spent + self.daily * days

    def margin(self, days: float) -> float:
        """Half the width of the band for a sum of so many days."""
        if self.days < FEWEST_DAYS:
            return 0.0
        freedom = self.days - 1
        t90 = T90[freedom - 1] if freedom <= len(T90) else T90_MANY
        return t90 * self.spread * sqrt(days + days * days / self.days)


def burn_down(spending: SpendingHistory, amount_micro_usd: int | None) -> BurnDown:
    """Extrapolates spending to the end of the period."""
    rate = _rate(spending)
    spent, now_ms = spending.spent_micro_usd, spending.now_ms
    left_days = max(0, spending.to_ms - now_ms) / DAY_MS
    end, margin = rate.expected(spent, left_days), rate.margin(left_days)
    has_band = rate.days >= FEWEST_DAYS

    def reached(sign: int) -> int | None:
        if amount_micro_usd is None:
            return None
        return _reached_ms(rate, spending, amount_micro_usd, sign)

    return BurnDown(
        spent_micro_usd=spent,
        micro_usd_per_day=round(rate.daily),
        end_micro_usd=round(end),
        low_end_micro_usd=max(spent, round(end - margin)) if has_band else None,
        high_end_micro_usd=round(end + margin) if has_band else None,
        amount_micro_usd=amount_micro_usd,
        exhausted_ms=reached(0),
        earliest_ms=reached(1) if has_band else None,
        latest_ms=reached(-1) if has_band else None,
        basis=rate.basis,
    )


def _rate(spending: SpendingHistory) -> _Rate:
    newest = [spending.days[day] for day in sorted(spending.days)][-MOST_DAYS:]
    if len(newest) >= DAYS_PER_WEEK:
        newest = newest[-(len(newest) // DAYS_PER_WEEK * DAYS_PER_WEEK) :]
    if len(newest) >= FEWEST_DAYS:
        daily = sum(newest) / len(newest)
        low, high = write_usd(min(newest)), write_usd(max(newest))
        return _Rate(
            daily=daily,
            spread=_spread(newest, daily),
            days=len(newest),
            basis=f"the last {len(newest)} whole days cost {low} to {high} each",
        )
    passed_ms = max(HOUR_MS, spending.now_ms - spending.since_ms)
    known = sum(newest) if newest else 0
    spent = max(spending.spent_micro_usd, known)
    hours = passed_ms / HOUR_MS
    return _Rate(
        daily=spent * DAY_MS / passed_ms,
        spread=0.0,
        days=len(newest),
        basis=f"only {hours:.0f} h are known; {FEWEST_DAYS} whole days are needed for a band",
    )


def _spread(amounts: Sequence[int], mean: float) -> float:
    return sqrt(sum((one - mean) ** 2 for one in amounts) / (len(amounts) - 1))


def _reached_ms(rate: _Rate, spending: SpendingHistory, amount: int, sign: int) -> int | None:
    """The first hour at which the expected sum, plus ``sign`` times its margin, reaches the amount."""
    spent, now_ms = spending.spent_micro_usd, spending.now_ms
    if spent >= amount:
        return now_ms

    def is_spent(hours: int) -> bool:
        days = hours * HOUR_MS / DAY_MS
        return rate.expected(spent, days) + sign * rate.margin(days) >= amount

    if not is_spent(LONGEST_HOURS):
        return None
    return now_ms + bisect_left(range(LONGEST_HOURS), True, key=is_spent) * HOUR_MS

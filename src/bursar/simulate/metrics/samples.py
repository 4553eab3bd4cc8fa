"""Samples of cumulative values at even intervals: curves of any run in bounded memory.

A sample holds integrals since the start, not values. So when every second one is dropped to save
memory, the mean of each wider window is still exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from bursar.model.units import MILLI, SECOND_MS, USD_MICRO
from bursar.simulate.metrics.cost import MARKETS, CostMeter
from bursar.simulate.metrics.fairness import entitlements
from bursar.simulate.metrics.gpu_capacity import GpuMeters
from bursar.simulate.metrics.series import Gantt, Series
from bursar.simulate.metrics.teams import TeamAccounts
from bursar.simulate.metrics.time_integral import TimeIntegral

MOST_POINTS = 2_000
FIRST_WIDTH_MS = 10 * SECOND_MS
FEWEST_POINTS = 200
MOST_NUMBERS = 400_000
TEAMS_DRAWN = 8
HELD, CAPACITY, WAITING, FREE, SCATTERED, UNALLOCATED = range(6)
FIRST_HELD_COST = 6
FIRST_COST = FIRST_HELD_COST + len(MARKETS)
FIRST_TEAM = FIRST_COST + len(MARKETS)
"""Columns of a sample: the fleet, the held and the total cost of each market, then two for each team."""

Row = tuple[int, tuple[int, ...], tuple[float, ...]]
"""A time, the integrals up to it, and the claims of the teams at it."""


class Samples:
    """Samples every integral at even intervals of a run."""

    def __init__(
        self, gpus: GpuMeters, waiting: TimeIntegral, cost: CostMeter, accounts: TeamAccounts
    ) -> None:
        self._gpus = gpus
        self._waiting = waiting
        self._cost = cost
        self._accounts = accounts
        self.width_ms = FIRST_WIDTH_MS
        self.next_ms = 0
        self._rows: list[Row] = []

    def begin(self, at_ms: int) -> None:
        self._rows = [self.read(at_ms)]
        self.next_ms = at_ms + self.width_ms

    def advance_to(self, now_ms: int) -> None:
        """Takes every sample that is due; doubles the interval when there are too many."""
        while self.next_ms <= now_ms:
            self._rows.append(self.read(self.next_ms))
            if len(self._rows) > self._max_rows():
                del self._rows[1::2]
                self.width_ms *= 2
            self.next_ms = self._rows[-1][0] + self.width_ms

    def _max_rows(self) -> int:
        """An even limit: one row more is odd, so the last row survives the thinning."""
        per_row = FIRST_TEAM + 2 * len(self._accounts.all)
        return min(MOST_POINTS, max(FEWEST_POINTS, MOST_NUMBERS // per_row)) // 2 * 2

    def read(self, at_ms: int) -> Row:
        """Every integral up to a time."""
        gpus, cost = self._gpus, self._cost
        fleet = (gpus.held, gpus.capacity, self._waiting)
        free = (gpus.free, gpus.scattered, gpus.unallocated)
        values = [meter.total(at_ms) for meter in (*fleet, *free)]
        values += [cost.allocated[market].total(at_ms) for market in MARKETS]
        values += [cost.capacity[market].total(at_ms) for market in MARKETS]
        for account in self._accounts.all:
            held = account.held.total(at_ms)
            values += (held, held + account.waiting.total(at_ms))
        return at_ms, tuple(values), self._accounts.claims

    def rows_until(self, last: Row) -> list[Row]:
        """The samples up to the end of the run, including it."""
        return [*(row for row in self._rows if row[0] < last[0]), last]


def series_of(rows: Sequence[Row], names: Sequence[str], width_ms: int) -> Series:
    """The curves between samples; the caller adds wait quantiles and the Gantt chart."""
    curves = _Curves(rows, len(names))
    market_curves = {
        str(market): curves.per_hour(FIRST_HELD_COST + number)
        for number, market in enumerate(MARKETS)
    }
    drawn = curves.largest_demand(TEAMS_DRAWN)
    return Series(
        began_ms=rows[0][0],
        ended_ms=rows[-1][0],
        width_ms=width_ms,
        waiting_jobs=curves.mean(WAITING, 1),
        gpus_held=curves.mean(HELD, MILLI),
        gpus=curves.mean(CAPACITY, MILLI),
        usd_per_hour={market: curve for market, curve in market_curves.items() if any(curve)},
        idle_usd_per_hour=curves.idle(),
        shares={names[team]: curves.share(team) for team in drawn},
        entitlements={names[team]: curves.entitlement(team) for team in drawn},
        teams_in_all=len(names),
        gantt=Gantt(),
    )


class _Curves:
    """Differences of cumulative rows; a team that joined later began at zero."""

    def __init__(self, rows: Sequence[Row], teams: int) -> None:
        length = FIRST_TEAM + 2 * teams
        full = [(*values, *([0] * (length - len(values)))) for _, values, _ in rows]
        self._teams = range(teams)
        self._spans = [max(1, b[0] - a[0]) for a, b in pairwise(rows)]
        self._steps = [
            tuple(new - old for old, new in zip(a, b, strict=True)) for a, b in pairwise(full)
        ]
        self._last = full[-1]
        self._fair = [
            _fair_shares(step, (*claims, *([0.0] * (teams - len(claims)))))
            for step, (_, _, claims) in zip(self._steps, rows[1:], strict=True)
        ]

    def mean(self, column: int, unit: int) -> tuple[float, ...]:
        return self._each(lambda step, span: step[column] / span / unit)

    def per_hour(self, column: int) -> tuple[float, ...]:
        """A rate in micro-dollars an hour, in dollars an hour."""
        return self.mean(column, USD_MICRO)

    def idle(self) -> tuple[float, ...]:
        held, total = slice(FIRST_HELD_COST, FIRST_COST), slice(FIRST_COST, FIRST_TEAM)
        return self._each(
            lambda step, span: (sum(step[total]) - sum(step[held])) / span / USD_MICRO
        )

    def share(self, team: int) -> tuple[float, ...]:
        return tuple(_ratio(_used(step)[team], sum(_used(step))) for step in self._steps)

    def entitlement(self, team: int) -> tuple[float, ...]:
        return tuple(
            _ratio(fair[team], sum(_used(step)))
            for fair, step in zip(self._fair, self._steps, strict=True)
        )

    def largest_demand(self, count: int) -> list[int]:
        """The teams with the largest total demand, largest first."""
        demand = self._last[FIRST_TEAM + 1 :: 2]
        return sorted(self._teams, key=lambda team: (-demand[team], team))[:count]

    def _each(self, value: Callable[[tuple[int, ...], int], float]) -> tuple[float, ...]:
        return tuple(value(step, span) for step, span in zip(self._steps, self._spans, strict=True))


def _used(step: tuple[int, ...]) -> tuple[int, ...]:
    return step[FIRST_TEAM::2]


def _fair_shares(step: tuple[int, ...], claims: tuple[float, ...]) -> tuple[float, ...]:
    return entitlements(sum(_used(step)), step[FIRST_TEAM + 1 :: 2], claims)


def _ratio(amount: float, total: float) -> float:
    return amount / total if total else 0.0

"""Computes the summary of a run from its totals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bursar.model.units import HOUR_MS, MILLI
from bursar.simulate.metrics.cost import MARKETS, RunCost, cost_of
from bursar.simulate.metrics.fairness import Fairness
from bursar.simulate.metrics.live_jobs import SIZES, FinishedJobTotals, LiveJob
from bursar.simulate.metrics.outcomes import OutcomeCounts
from bursar.simulate.metrics.quantiles import Grouping, Numbers, distribution_of
from bursar.simulate.metrics.samples import (
    CAPACITY,
    FIRST_COST,
    FIRST_HELD_COST,
    FREE,
    HELD,
    SCATTERED,
    UNALLOCATED,
    WAITING,
    Row,
)
from bursar.simulate.metrics.summary import (
    Cycles,
    GpuTime,
    OutcomeSummary,
    Summary,
    TeamSummary,
    Times,
    Use,
)
from bursar.simulate.metrics.teams import TeamAccount, TeamAccounts

WAIT_QUANTILES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """Everything counted up to the end of a run. ``end`` are the integrals at that time."""

    began_ms: int
    end: Row
    jobs: Mapping[str, LiveJob]
    accounts: TeamAccounts
    finished: FinishedJobTotals
    counts: OutcomeCounts
    fairness: Fairness
    cycles: Cycles

    @property
    def span_ms(self) -> int:
        return self.end[0] - self.began_ms


def summarise(name: str, totals: RunTotals) -> Summary:
    times, by_team, by_size = _times(totals)
    unfinished = list(totals.jobs.values())
    gpu_time = _gpu_time(totals)
    return Summary(
        name=name,
        began_ms=totals.began_ms,
        ended_ms=totals.end[0],
        makespan_ms=totals.span_ms,
        outcomes=_outcomes(totals.accounts.all, len(unfinished)),
        times=times,
        by_size={
            size: times for size, times in zip(SIZES, by_size, strict=True) if times.jct_ms.count
        },
        teams=_teams(totals, by_team),
        gpu_time=gpu_time,
        use=_use(totals, gpu_time),
        fairness=totals.fairness,
        losses=totals.counts.losses(),
        promises=totals.counts.promises(unfinished, totals.end[0]),
        cost=_cost(totals.end[1]),
        cycles=totals.cycles,
    )


def wait_quantiles(waits_ms: Numbers) -> tuple[int, ...]:
    """Evenly spaced quantiles from the smallest to the largest, for a curve."""
    if not len(waits_ms):
        return ()
    ordered = np.sort(waits_ms)
    last = len(ordered) - 1
    points = min(WAIT_QUANTILES, last)
    return tuple(int(ordered[last * number // max(1, points)]) for number in range(points + 1))


def _times(totals: RunTotals) -> tuple[Times, list[Times], list[Times]]:
    """Overall, by team, by size."""
    jobs = totals.finished
    overall = _times_of((column,) for column in _columns(jobs))
    by_team = _times_by(jobs, jobs.team, len(totals.accounts.all))
    return overall[0], by_team, _times_by(jobs, jobs.size, len(SIZES))


def _times_by(jobs: FinishedJobTotals, groups: Numbers, count: int) -> list[Times]:
    grouping = Grouping(groups, count)
    return _times_of(grouping.of(column) for column in _columns(jobs))


def _columns(jobs: FinishedJobTotals) -> tuple[Numbers, Numbers, Numbers]:
    return jobs.jct_ms, jobs.wait_ms, jobs.slowdown_milli


def _times_of(columns: Iterable[Iterable[Numbers]]) -> list[Times]:
    """The times of each group from three columns; one column is in memory at a time."""
    spreads = [[distribution_of(values) for values in column] for column in columns]
    return [Times(jct_ms=a, wait_ms=b, slowdown_milli=c) for a, b, c in zip(*spreads, strict=True)]


def _outcomes(accounts: Sequence[TeamAccount], unfinished: int) -> OutcomeSummary:
    return OutcomeSummary(
        submitted=sum(account.submitted for account in accounts),
        succeeded=sum(account.succeeded for account in accounts),
        failed=sum(account.failed for account in accounts),
        cancelled=sum(account.cancelled for account in accounts),
        unfinished=unfinished,
    )


def _teams(totals: RunTotals, times: list[Times]) -> tuple[TeamSummary, ...]:
    """By name."""
    end_ms = totals.end[0]
    unfinished = _unfinished_micro_usd_ms(totals)
    teams = []
    for account in sorted(totals.accounts.all, key=lambda account: account.name):
        open_jobs = account.submitted - account.succeeded - account.failed - account.cancelled
        held = account.held.total(end_ms)
        teams.append(
            TeamSummary(
                team=account.name,
                outcomes=_outcomes([account], open_jobs),
                times=times[account.index],
                gpu_milli_ms=held,
                entitled_gpu_milli_ms=round(account.entitled),
                satisfied=_ratio(held, account.demand(end_ms), default=1.0),
                cost_micro_usd=(account.paid_micro_usd_ms + unfinished[account.index]) // HOUR_MS,
                preemptions=account.preemptions,
                lost_gpu_milli_ms=account.lost_milli_ms,
                lost_micro_usd=account.lost_micro_usd_ms // HOUR_MS,
            )
        )
    return tuple(teams)


def _unfinished_micro_usd_ms(totals: RunTotals) -> list[int]:
    """The cost of each team's unfinished attempts."""
    owed = [0] * len(totals.accounts.all)
    for job in totals.jobs.values():
        if job.placement is not None:
            held_ms = totals.end[0] - job.assigned_ms
            owed[job.team.index] += job.placement.all_micro_usd_per_hour * held_ms
    return owed


def _gpu_time(totals: RunTotals) -> GpuTime:
    values = totals.end[1]
    lost, restart = totals.counts.lost_milli_ms, totals.counts.restart_milli_ms
    return GpuTime(
        capacity=values[CAPACITY],
        allocated=values[HELD],
        idle=values[CAPACITY] - values[HELD],
        lost=lost,
        restart=restart,
        useful=max(0, values[HELD] - lost - restart),
    )


def _use(totals: RunTotals, gpu_time: GpuTime) -> Use:
    values, span_ms = totals.end[1], totals.span_ms
    return Use(
        allocated=_ratio(gpu_time.allocated, gpu_time.capacity),
        useful=_ratio(gpu_time.useful, gpu_time.capacity),
        fragmentation=_ratio(values[SCATTERED], values[FREE]),
        unallocated_gpus_while_waiting=_ratio(values[UNALLOCATED], span_ms * MILLI),
        waiting_jobs=_ratio(values[WAITING], span_ms),
    )


def _cost(values: tuple[int, ...]) -> RunCost:
    held = dict(zip(MARKETS, values[FIRST_HELD_COST:FIRST_COST], strict=True))
    capacity = dict(zip(MARKETS, values[FIRST_COST : FIRST_COST + len(MARKETS)], strict=True))
    return cost_of(capacity, held)


def _ratio(amount: float, total: float, *, default: float = 0.0) -> float:
    return amount / total if total else default

"""From what was counted to the summary of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bursar.model.units import HOUR_MS, MILLI
from bursar.simulate.metrics.cost import MARKETS, RunCost, cost_of
from bursar.simulate.metrics.fairness import Fairness
from bursar.simulate.metrics.live_jobs import SIZES, FinishedJobTotals, LiveJob
from bursar.simulate.metrics.outcomes import OutcomeCounts
from bursar.simulate.metrics.quantiles import Grouping, Numbers, spread_of
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
    """Everything counted up to the end of a run. ``end`` are the integrals at that moment."""

    began_ms: int
    end: Row
    jobs: Mapping[str, LiveJob]
    accounts: TeamAccounts
    finished: FinishedJobTotals
    ledger: OutcomeCounts
    fairness: Fairness
    cycles: Cycles

    @property
    def span_ms(self) -> int:
        return self.end[0] - self.began_ms


def summarise(name: str, books: RunTotals) -> Summary:
    """All numbers of a run."""
    times, by_team, by_size = _times(books)
    unfinished = list(books.jobs.values())
    gpu_time = _gpu_time(books)
    return Summary(
        name=name,
        began_ms=books.began_ms,
        ended_ms=books.end[0],
        makespan_ms=books.span_ms,
        outcomes=_outcomes(books.accounts.all, len(unfinished)),
        times=times,
        by_size={
            size: found for size, found in zip(SIZES, by_size, strict=True) if found.jct_ms.count
        },
        teams=_teams(books, by_team),
        gpu_time=gpu_time,
        use=_use(books, gpu_time),
        fairness=books.fairness,
        losses=books.ledger.losses(),
        promises=books.ledger.promises(unfinished, books.end[0]),
        cost=_cost(books.end[1]),
        cycles=books.cycles,
    )


def wait_quantiles(waits_ms: Numbers) -> tuple[int, ...]:
    """Evenly spaced quantiles from the least to the largest, for a curve of the distribution."""
    if not len(waits_ms):
        return ()
    ordered = np.sort(waits_ms)
    last = len(ordered) - 1
    points = min(WAIT_QUANTILES, last)
    return tuple(int(ordered[last * number // max(1, points)]) for number in range(points + 1))


def _times(books: RunTotals) -> tuple[Times, list[Times], list[Times]]:
    """Overall, by team, by size."""
    jobs = books.finished
    everyone = _times_of((column,) for column in _columns(jobs))
    by_team = _times_by(jobs, jobs.team, len(books.accounts.all))
    return everyone[0], by_team, _times_by(jobs, jobs.size, len(SIZES))


def _times_by(jobs: FinishedJobTotals, groups: Numbers, count: int) -> list[Times]:
    grouping = Grouping(groups, count)
    return _times_of(grouping.of(column) for column in _columns(jobs))


def _columns(jobs: FinishedJobTotals) -> tuple[Numbers, Numbers, Numbers]:
    return jobs.jct_ms, jobs.wait_ms, jobs.slowdown_milli


def _times_of(columns: Iterable[Iterable[Numbers]]) -> list[Times]:
    """From the values of each group in three columns, one column at a time, so that few are in memory."""
    found = [[spread_of(values) for values in column] for column in columns]
    return [Times(jct_ms=a, wait_ms=b, slowdown_milli=c) for a, b, c in zip(*found, strict=True)]


def _outcomes(accounts: Sequence[TeamAccount], unfinished: int) -> OutcomeSummary:
    return OutcomeSummary(
        submitted=sum(account.submitted for account in accounts),
        succeeded=sum(account.succeeded for account in accounts),
        failed=sum(account.failed for account in accounts),
        cancelled=sum(account.cancelled for account in accounts),
        unfinished=unfinished,
    )


def _teams(books: RunTotals, times: list[Times]) -> tuple[TeamSummary, ...]:
    """By name."""
    end_ms = books.end[0]
    running = _running_micro_usd_ms(books)
    found = []
    for account in sorted(books.accounts.all, key=lambda account: account.name):
        open_jobs = account.submitted - account.succeeded - account.failed - account.cancelled
        held = account.held.total(end_ms)
        found.append(
            TeamSummary(
                team=account.name,
                outcomes=_outcomes([account], open_jobs),
                times=times[account.index],
                gpu_milli_ms=held,
                entitled_gpu_milli_ms=round(account.entitled),
                satisfied=_ratio(held, account.demand(end_ms), of_nothing=1.0),
                cost_micro_usd=(account.paid_micro_usd_ms + running[account.index]) // HOUR_MS,
                preemptions=account.preemptions,
                lost_gpu_milli_ms=account.lost_milli_ms,
                lost_micro_usd=account.lost_micro_usd_ms // HOUR_MS,
            )
        )
    return tuple(found)


def _running_micro_usd_ms(books: RunTotals) -> list[int]:
    """What each team owes for attempts that have not ended."""
    owed = [0] * len(books.accounts.all)
    for job in books.jobs.values():
        if job.placement is not None:
            held_ms = books.end[0] - job.assigned_ms
            owed[job.team.index] += job.placement.all_micro_usd_per_hour * held_ms
    return owed


def _gpu_time(books: RunTotals) -> GpuTime:
    values = books.end[1]
    lost, restart = books.ledger.lost_milli_ms, books.ledger.restart_milli_ms
    return GpuTime(
        capacity=values[CAPACITY],
        allocated=values[HELD],
        idle=values[CAPACITY] - values[HELD],
        lost=lost,
        restart=restart,
        useful=max(0, values[HELD] - lost - restart),
    )


def _use(books: RunTotals, gpu_time: GpuTime) -> Use:
    values, span_ms = books.end[1], books.span_ms
    return Use(
        allocated=_ratio(gpu_time.allocated, gpu_time.capacity),
        useful=_ratio(gpu_time.useful, gpu_time.capacity),
        fragmentation=_ratio(values[SCATTERED], values[FREE]),
        unallocated_gpus_while_waiting=_ratio(values[UNALLOCATED], span_ms * MILLI),
        waiting_jobs=_ratio(values[WAITING], span_ms),
    )


def _cost(values: tuple[int, ...]) -> RunCost:
    held = dict(zip(MARKETS, values[FIRST_HELD_COST:FIRST_COST], strict=True))
    there = dict(zip(MARKETS, values[FIRST_COST : FIRST_COST + len(MARKETS)], strict=True))
    return cost_of(there, held)


def _ratio(part: float, whole: float, *, of_nothing: float = 0.0) -> float:
    return part / whole if whole else of_nothing

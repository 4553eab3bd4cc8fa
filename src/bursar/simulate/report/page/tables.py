"""The tables of the page by team and by size of jobs, one for each run."""

from __future__ import annotations

from collections.abc import Callable

from bursar.model.units import counted
from bursar.simulate.metrics.summary import TeamSummary, Times
from bursar.simulate.report.metric_rows import (
    write_count,
    write_dollars,
    write_gpu_hours,
    write_percent,
    write_time,
)
from bursar.simulate.report.page.plot import PageTable
from bursar.simulate.report.page.runs import PageRuns

MAX_TEAMS = 40

TEAM_COLUMNS: dict[str, Callable[[TeamSummary], str]] = {
    "team": lambda team: team.team,
    "jobs": lambda team: write_count(team.outcomes.submitted),
    "succeeded": lambda team: write_count(team.outcomes.succeeded),
    "wait mean": lambda team: write_time(team.times.wait_ms.mean),
    "wait p90": lambda team: write_time(team.times.wait_ms.p90),
    "wait p99": lambda team: write_time(team.times.wait_ms.p99),
    "JCT mean": lambda team: write_time(team.times.jct_ms.mean),
    "GPU time": lambda team: write_gpu_hours(team.gpu_milli_ms),
    "of entitlement": lambda team: (
        write_percent(team.gpu_milli_ms / team.entitled_gpu_milli_ms)
        if team.entitled_gpu_milli_ms
        else "-"
    ),
    "demand met": lambda team: write_percent(team.satisfied),
    "cost": lambda team: write_dollars(team.cost_micro_usd),
    "preempted": lambda team: write_count(team.preemptions),
    "lost": lambda team: write_gpu_hours(team.lost_gpu_milli_ms),
}
TIMES_COLUMNS: dict[str, Callable[[Times], str]] = {
    "jobs": lambda times: write_count(times.jct_ms.count),
    "wait mean": lambda times: write_time(times.wait_ms.mean),
    "wait p50": lambda times: write_time(times.wait_ms.p50),
    "wait p90": lambda times: write_time(times.wait_ms.p90),
    "wait p99": lambda times: write_time(times.wait_ms.p99),
    "JCT mean": lambda times: write_time(times.jct_ms.mean),
    "JCT p99": lambda times: write_time(times.jct_ms.p99),
}


def team_tables(runs: PageRuns) -> list[PageTable]:
    """Teams by GPU time, largest first."""
    tables = []
    for run in runs.each:
        teams = sorted(run.summary.teams, key=lambda team: (-team.gpu_milli_ms, team.team))
        if teams:
            more = len(teams) - MAX_TEAMS
            table = PageTable(
                title="" if runs.is_single else run.name,
                head=tuple(TEAM_COLUMNS),
                rows=[
                    [write(team) for write in TEAM_COLUMNS.values()] for team in teams[:MAX_TEAMS]
                ],
                note=f"{counted(more, 'smaller team')} omitted." if more > 0 else "",
            )
            tables.append(table)
    return tables


def size_tables(runs: PageRuns) -> list[PageTable]:
    return [
        PageTable(
            title="" if runs.is_single else run.name,
            head=("size", *TIMES_COLUMNS),
            rows=[
                [size, *(write(times) for write in TIMES_COLUMNS.values())]
                for size, times in run.summary.by_size.items()
            ],
        )
        for run in runs.each
        if run.summary.by_size
    ]

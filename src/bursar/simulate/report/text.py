"""Outcomes of runs as plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from bursar.model.units import counted
from bursar.simulate.metrics import compare_table
from bursar.simulate.metrics.summary import TeamSummary
from bursar.simulate.report.aligned import aligned
from bursar.simulate.report.metric_rows import (
    write_count,
    write_dollars,
    write_gpu_hours,
    write_percent,
    write_time,
)

if TYPE_CHECKING:
    from bursar.simulate.runs.run_outcome import RunOutcome

TEAMS_SHOWN = 20
TEAM_COLUMNS: dict[str, Callable[[TeamSummary], str]] = {
    "team": lambda team: team.team,
    "jobs": lambda team: write_count(team.outcomes.submitted),
    "wait mean": lambda team: write_time(team.times.wait_ms.mean),
    "wait p90": lambda team: write_time(team.times.wait_ms.p90),
    "GPU time": lambda team: write_gpu_hours(team.gpu_milli_ms),
    "satisfied": lambda team: write_percent(team.satisfied),
    "cost": lambda team: write_dollars(team.cost_micro_usd),
    "preempted": lambda team: write_count(team.preemptions),
}


def run_text(outcome: RunOutcome) -> str:
    """One run: its input, metrics, teams and remarks."""
    summary = outcome.summary
    lines = [
        f"{outcome.source} on {outcome.fleet} ({counted(outcome.gpus, 'GPU')}), policy {outcome.policy}",
        "",
        *compare_table([summary]).splitlines()[1:],
    ]
    if len(summary.teams) > 1:
        lines += ["", *team_table(summary.teams)]
    return _joined(lines, outcome.remarks())


def comparison_text(outcomes: Sequence[RunOutcome]) -> str:
    """Several runs side by side, with the remarks of each."""
    if not outcomes:
        return ""
    first = outcomes[0]
    lines = [first.source, "", *compare_table([one.summary for one in outcomes]).splitlines()]
    if len(first.summary.teams) > 1:
        lines += ["", *_wait_table(outcomes)]
    named = [(one.summary.name, one.remarks()) for one in outcomes]
    if len({remarks for _, remarks in named}) == 1:
        return _joined(lines, named[0][1])
    return _joined(lines, [line for name, remarks in named for line in _prefixed(name, remarks)])


def _prefixed(name: str, remarks: Sequence[str]) -> Iterator[str]:
    for remark in remarks:
        yield remark if remark.startswith(" ") else f"{name}: {remark}"


def _joined(lines: Sequence[str], remarks: Sequence[str]) -> str:
    if remarks:
        lines = [*lines, "", *remarks]
    return "\n".join(lines) + "\n"


def team_table(teams: Sequence[TeamSummary]) -> list[str]:
    shown, more = _largest(teams)
    rows = [[write(team) for write in TEAM_COLUMNS.values()] for team in shown]
    return [*aligned([list(TEAM_COLUMNS), *rows]), *more]


def _wait_table(outcomes: Sequence[RunOutcome]) -> list[str]:
    """The mean wait of each team in each run; an interrupted run may lack a team."""
    shown, more = _largest(outcomes[0].summary.teams)
    waits = [
        {team.team: write_time(team.times.wait_ms.mean) for team in one.summary.teams}
        for one in outcomes
    ]
    rows = [("wait mean by team", *(one.summary.name for one in outcomes))]
    for team in shown:
        rows.append((team.team, *(wait.get(team.team, "-") for wait in waits)))
    return [*aligned(rows), *more]


def _largest(teams: Sequence[TeamSummary]) -> tuple[list[TeamSummary], list[str]]:
    """The teams with the most GPU time, and a line about the others."""
    ranked = sorted(teams, key=lambda one: (-one.gpu_milli_ms, one.team))
    others = len(ranked) - TEAMS_SHOWN
    return ranked[:TEAMS_SHOWN], [f"and {counted(others, 'more team')}"] if others > 0 else []

"""Outcomes of runs as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from bursar.simulate.runs.run_outcome import RunOutcome

TEAMS_SHOWN = 20
TEAM_COLUMNS = (
    "team",
    "jobs",
    "wait mean",
    "wait p90",
    "GPU time",
    "satisfied",
    "cost",
    "preempted",
)


def run_text(outcome: RunOutcome) -> str:
    """One run: its input, metrics, teams and remarks."""
    summary = outcome.summary
    lines = [
        f"{outcome.source} on {outcome.fleet} ({counted(outcome.gpus, 'GPU')}), policy {outcome.policy}",
        "",
        *compare_table([summary]).splitlines()[1:],
    ]
    if len(summary.teams) > 1:
        lines += ["", *_team_table(summary.teams)]
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


def _team_table(teams: Sequence[TeamSummary]) -> list[str]:
    """Teams by GPU time, largest first."""
    ranked = sorted(teams, key=lambda one: (-one.gpu_milli_ms, one.team))
    rows = [TEAM_COLUMNS, *(_team_row(one) for one in ranked[:TEAMS_SHOWN])]
    return [*aligned(rows), *_more(len(ranked) - TEAMS_SHOWN)]


def _wait_table(outcomes: Sequence[RunOutcome]) -> list[str]:
    """The mean wait of each team in each run; an interrupted run may lack a team."""
    ranked = sorted(outcomes[0].summary.teams, key=lambda one: (-one.gpu_milli_ms, one.team))
    waits = [
        {team.team: write_time(team.times.wait_ms.mean) for team in one.summary.teams}
        for one in outcomes
    ]
    rows = [("wait mean by team", *(one.summary.name for one in outcomes))]
    for team in ranked[:TEAMS_SHOWN]:
        rows.append((team.team, *(wait.get(team.team, "-") for wait in waits)))
    return [*aligned(rows), *_more(len(ranked) - TEAMS_SHOWN)]


def _more(teams: int) -> list[str]:
    return [f"and {counted(teams, 'more team')}"] if teams > 0 else []


def _team_row(team: TeamSummary) -> tuple[str, ...]:
    waits = team.times.wait_ms
    return (
        team.team,
        write_count(team.outcomes.submitted),
        write_time(waits.mean),
        write_time(waits.p90),
        write_gpu_hours(team.gpu_milli_ms),
        write_percent(team.satisfied),
        write_dollars(team.cost_micro_usd),
        write_count(team.preemptions),
    )

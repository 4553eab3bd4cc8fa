"""The tables of the page: the metrics with differences, the teams, and the sizes of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from bursar.model.units import counted
from bursar.simulate.metrics.summary import Summary, TeamSummary
from bursar.simulate.report.comparison import ComparisonCell, MetricLine, compare, write_change
from bursar.simulate.report.metric_rows import (
    write_count,
    write_dollars,
    write_gpu_hours,
    write_percent,
    write_time,
)
from bursar.simulate.report.page.html import NOTHING, Html, join, tag, text
from bursar.simulate.report.page.plot import colour, table
from bursar.simulate.report.page.runs import PageRun, PageRuns

MAX_TEAMS = 40
SMALL_CHANGE = 0.005


def headline(runs: PageRuns) -> Html:
    """Cards for one run; for several, a table with differences to the first."""
    lines = compare([run.summary for run in runs.each])
    return _cards(lines) if runs.is_single else _side_by_side(lines, runs)


def _cards(lines: Sequence[MetricLine]) -> Html:
    cards = []
    for group, members in groupby(lines, key=lambda line: line.metric.group):
        rows = [
            tag("div", tag("dt", text(one.metric.label)), tag("dd", text(one.cells[0].text)))
            for one in members
        ]
        cards.append(tag("section", tag("h3", text(group)), tag("dl", *rows), class_="card"))
    return tag("div", *cards, class_="cards")


def _side_by_side(lines: Sequence[MetricLine], runs: PageRuns) -> Html:
    names = [
        tag(
            "th",
            tag("span", class_=f"key {colour(run.number)}", aria_hidden="true"),
            text(run.name),
            scope="col",
        )
        for run in runs.each
    ]
    bodies = []
    for group, members in groupby(lines, key=lambda line: line.metric.group):
        title = tag("th", text(group), colspan=len(runs.each) + 1, scope="rowgroup")
        rows = [
            tag("tr", tag("th", text(one.metric.label), scope="row"), *_cells(one))
            for one in members
        ]
        bodies.append(tag("tbody", tag("tr", title, class_="group"), *rows))
    head = tag("thead", tag("tr", tag("td"), *names))
    note = f"Percentages are differences to {runs.each[0].name}; the best of each row is marked."
    metrics = tag("div", tag("table", head, *bodies, class_="headline"), class_="scroll")
    return join([metrics, tag("p", text(note), class_="note")])


def _cells(one: MetricLine) -> list[Html]:
    return [
        tag(
            "td",
            tag("span", text(cell.text), class_="best" if cell.best else "value"),
            tag("span", text(" best"), class_="unseen") if cell.best else NOTHING,
            tag("span", text(write_change(cell.change)), class_=_tone(cell, one.metric.better)),
        )
        for cell in one.cells
    ]


def _tone(cell: ComparisonCell, better: int) -> str:
    """The class of a difference: good, bad or neutral."""
    if cell.change is None or not better or abs(cell.change) < SMALL_CHANGE:
        return "change"
    return "change good" if (cell.change > 0) == (better > 0) else "change bad"


# -- by team and by size -------------------------------------------------------------------------

TEAM_HEAD = ("team", "jobs", "succeeded", "wait mean", "wait p90", "wait p99", "JCT mean")
TEAM_HEAD_MORE = ("GPU time", "of entitlement", "demand met", "cost", "preempted", "lost")
SIZE_HEAD = ("size", "jobs", "wait mean", "wait p50", "wait p90", "wait p99", "JCT mean", "JCT p99")


def by_team(runs: PageRuns) -> Html:
    """One table for each run."""
    tables = [_team_table(run, runs) for run in runs.each if run.summary.teams]
    return tag("section", tag("h2", text("Teams")), *tables) if tables else NOTHING


def _team_table(run: PageRun, runs: PageRuns) -> Html:
    teams = sorted(run.summary.teams, key=lambda team: (-team.gpu_milli_ms, team.team))
    shown = [_team_row(team) for team in teams[:MAX_TEAMS]]
    rows = tag("div", table((*TEAM_HEAD, *TEAM_HEAD_MORE), shown), class_="scroll")
    more = len(teams) - len(shown)
    omitted = f"{counted(more, 'smaller team')} omitted."
    note = tag("p", text(omitted), class_="note") if more else NOTHING
    return join([_run_heading(run, runs), rows, note])


def _team_row(team: TeamSummary) -> list[str]:
    wait, entitled = team.times.wait_ms, team.entitled_gpu_milli_ms
    return [
        team.team,
        write_count(team.outcomes.submitted),
        write_count(team.outcomes.succeeded),
        write_time(wait.mean),
        write_time(wait.p90),
        write_time(wait.p99),
        write_time(team.times.jct_ms.mean),
        write_gpu_hours(team.gpu_milli_ms),
        write_percent(team.gpu_milli_ms / entitled) if entitled else "-",
        write_percent(team.satisfied),
        write_dollars(team.cost_micro_usd),
        write_count(team.preemptions),
        write_gpu_hours(team.lost_gpu_milli_ms),
    ]


def by_size(runs: PageRuns) -> Html:
    tables = [
        _run_heading(run, runs) + tag("div", _size_table(run.summary), class_="scroll")
        for run in runs.each
        if run.summary.by_size
    ]
    if not tables:
        return NOTHING
    return tag("section", tag("h2", text("Sizes of jobs")), *(Html(one) for one in tables))


def _size_table(summary: Summary) -> Html:
    rows = [
        [
            size,
            write_count(times.jct_ms.count),
            write_time(times.wait_ms.mean),
            write_time(times.wait_ms.p50),
            write_time(times.wait_ms.p90),
            write_time(times.wait_ms.p99),
            write_time(times.jct_ms.mean),
            write_time(times.jct_ms.p99),
        ]
        for size, times in summary.by_size.items()
    ]
    return table(SIZE_HEAD, rows)


def _run_heading(run: PageRun, runs: PageRuns) -> Html:
    return NOTHING if runs.is_single else tag("h3", text(run.name))

"""Plots of share and entitlement: one for each team and run, with one scale for a team."""

from __future__ import annotations

from bursar.simulate.report.metric_rows import write_percent, write_time
from bursar.simulate.report.page.axes import percent_axis, time_axis
from bursar.simulate.report.page.curve import Curve, area_path, curve_of, step_path
from bursar.simulate.report.page.html import NOTHING, Html, join, tag, text
from bursar.simulate.report.page.plot import Frame, area, draw, legend, line, numbers
from bursar.simulate.report.page.runs import PageRun, PageRuns

WIDTH_OF_COLUMNS = {1: 560.0, 2: 560.0, 3: 372.0}
ROWS_OF_NUMBERS = 8


def share_section(runs: PageRuns) -> Html:
    """A row for each team and a column for each run; with one run, two teams in a row."""
    teams = list(runs.style_of_team)
    if not teams:
        return NOTHING
    columns = min(4, max(2, len(runs.each)))
    plots = [
        _plot(run, team, runs)
        for team in teams
        for run in runs.each
        if team in run.series.shares or not runs.is_single
    ]
    total = max(run.series.teams_in_all for run in runs.each)
    note = (
        "Each team's share of the allocated GPU time, and its entitlement: by quota or weight among the "
        "teams with demand, and never more than its demand."
    )
    if total > len(teams):
        note += f" {len(teams)} of {total} teams are shown, those with the largest demand."
    return tag(
        "section",
        tag("h2", text("Share and entitlement")),
        tag("p", text(note), class_="note"),
        legend([("share, in the colour of the team", "ink"), ("entitlement", "aside")]),
        tag("div", join(plots), class_=f"grid of-{columns}"),
    )


def _plot(run: PageRun, team: str, runs: PageRuns) -> Html:
    share = curve_of(run.series, run.series.shares.get(team, ()))
    entitlement = curve_of(run.series, run.series.entitlements.get(team, ()))
    style = runs.style(team)
    x = time_axis(runs.longest_ms, 5)
    y = percent_axis("of GPU time", _highest(team, runs))
    title = team if runs.is_single else f"{team}: {run.name}"
    frame = Frame(
        key=f"share-{run.number}-{list(runs.style_of_team).index(team)}",
        title=title,
        description=f"Share of GPU time of {team} in {run.name}, and its entitlement, over time.",
        width=WIDTH_OF_COLUMNS.get(len(runs.each), 280.0),
        height=184.0,
    )
    zero = Curve(share.edges, tuple(0.0 for _ in share.values))
    marks = [
        area(area_path(share, zero, frame.box, (x, y)), f"{style} pale"),
        line(step_path(share, frame.box, x, y), "share", style),
        line(step_path(entitlement, frame.box, x, y), "entitlement", "aside"),
    ]
    times_ms = [run.length_ms * n // ROWS_OF_NUMBERS for n in range(ROWS_OF_NUMBERS)]
    rows = [
        [write_time(at_ms), write_percent(share.at(at_ms)), write_percent(entitlement.at(at_ms))]
        for at_ms in times_ms
    ]
    return tag(
        "figure",
        tag("figcaption", tag("h4", text(title))),
        draw(frame, x, y, marks),
        numbers(["time", "share", "entitlement"], rows),
    )


def _highest(team: str, runs: PageRuns) -> float:
    """The highest value of a team's curves in any run, for one scale."""
    curves = [
        curve_of(run.series, values.get(team, ()))
        for run in runs.each
        for values in (run.series.shares, run.series.entitlements)
    ]
    return max((max(curve.values, default=0.0) for curve in curves), default=0.0)

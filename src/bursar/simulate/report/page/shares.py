"""Share against entitlement: a small plot for each team, with one scale for all runs."""

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
    """Rows of teams, columns of runs; for one run the teams stand two in a row."""
    teams = list(runs.style_of_team)
    if not teams:
        return NOTHING
    columns = min(4, max(2, len(runs.each)))
    plots = [
        _plot(run, team, runs)
        for team in teams
        for run in runs.each
        if team in run.series.shares or not runs.alone
    ]
    most = max(run.series.teams_in_all for run in runs.each)
    left_out = f" The {len(teams)} that want most of {most} are drawn." if most > len(teams) else ""
    note = (
        "The part of the GPU time handed out that each team got, and the part it was entitled to: by "
        f"quota or weight among the teams that wanted GPUs, and never more than it wanted.{left_out}"
    )
    return tag(
        "section",
        tag("h2", text("Share and entitlement")),
        tag("p", text(note), class_="note"),
        legend([("share, in the colour of the team", "ink"), ("entitlement", "aside")]),
        tag("div", join(plots), class_=f"grid of-{columns}"),
    )


def _plot(run: PageRun, team: str, runs: PageRuns) -> Html:
    share = curve_of(run.series, run.series.shares.get(team, ()))
    due = curve_of(run.series, run.series.entitlements.get(team, ()))
    style = runs.style(team)
    x = time_axis(runs.longest_ms, 5)
    y = percent_axis("of GPU time", _highest(team, runs))
    title = team if runs.alone else f"{team}: {run.name}"
    frame = Frame(
        key=f"share-{run.number}-{list(runs.style_of_team).index(team)}",
        title=title,
        description=f"Share of GPU time of {team} in {run.name}, and its entitlement, over time.",
        width=WIDTH_OF_COLUMNS.get(len(runs.each), 280.0),
        height=184.0,
    )
    ground = Curve(share.edges, tuple(0.0 for _ in share.values))
    marks = [
        area(area_path(share, ground, frame.box, (x, y)), f"{style} pale"),
        line(step_path(share, frame.box, x, y), "share", style),
        line(step_path(due, frame.box, x, y), "entitlement", "aside"),
    ]
    moments = [run.length_ms * n // ROWS_OF_NUMBERS for n in range(ROWS_OF_NUMBERS)]
    rows = [
        [write_time(at), write_percent(share.at(at)), write_percent(due.at(at))] for at in moments
    ]
    return tag(
        "figure",
        tag("figcaption", tag("h4", text(title))),
        draw(frame, x, y, marks),
        numbers(["time", "share", "entitlement"], rows),
    )


def _highest(team: str, runs: PageRuns) -> float:
    """The highest point of a team's curves in any run, so that its plots can be compared."""
    curves = [
        curve_of(run.series, values.get(team, ()))
        for run in runs.each
        for values in (run.series.shares, run.series.entitlements)
    ]
    return max((max(curve.values, default=0.0) for curve in curves), default=0.0)

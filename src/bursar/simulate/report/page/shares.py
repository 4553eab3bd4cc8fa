"""Plots of share and entitlement: one for each team and run, with one scale for a team."""

from __future__ import annotations

from bursar.simulate.report.page.axes import ChartAxis, percent_axis, time_axis
from bursar.simulate.report.page.curve import Box, Curve, curve_of, highest
from bursar.simulate.report.page.plot import Chart, area, line, numbers_over_time
from bursar.simulate.report.page.runs import PageRun, PageRuns

WIDTH_OF_COLUMNS = {1: 492.0, 2: 492.0, 3: 304.0}
ROWS_OF_NUMBERS = 8


def share_charts(runs: PageRuns) -> list[Chart]:
    """A row for each team and a column for each run; with one run, two teams in a row."""
    charts = []
    for team in runs.style_of_team:
        curves = [_curves(team, run) for run in runs.each]
        y = percent_axis("of GPU time", highest([curve for pair in curves for curve in pair]))
        charts += [
            _chart(team, run, runs, y, pair) for run, pair in zip(runs.each, curves, strict=True)
        ]
    return charts


def _curves(team: str, run: PageRun) -> tuple[Curve, Curve]:
    """Its share and its entitlement; without a value where the run lacks the team."""
    series = run.series
    share, entitlement = series.shares.get(team, ()), series.entitlements.get(team, ())
    return curve_of(series, share), curve_of(series, entitlement)


def _chart(
    team: str, run: PageRun, runs: PageRuns, y: ChartAxis, curves: tuple[Curve, Curve]
) -> Chart:
    share, entitlement = curves
    style = runs.style_of_team[team]
    box = Box(
        x_axis=time_axis(runs.longest_ms, 5),
        y_axis=y,
        width=WIDTH_OF_COLUMNS.get(len(runs.each), 212.0),
        height=118.0,
    )
    return Chart(
        key=f"share-{run.number}-{list(runs.style_of_team).index(team)}",
        title=runs.title(team, run),
        description=f"Share of GPU time of {team} in {run.name}, and its entitlement, over time.",
        box=box,
        marks=[
            area(share, share.zero, box, f"{style} pale"),
            line(share, box, "share", style),
            line(entitlement, box, "entitlement", "aside"),
        ],
        numbers=numbers_over_time(
            box, run.length_ms, ROWS_OF_NUMBERS, [("share", share), ("entitlement", entitlement)]
        ),
    )

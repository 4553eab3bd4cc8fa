"""Renders the page of one or several runs from their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from bursar.model.units import counted
from bursar.page_templates import environment
from bursar.simulate.metrics.series import Series
from bursar.simulate.metrics.summary import Summary
from bursar.simulate.report.comparison import compare
from bursar.simulate.report.metric_rows import write_count, write_time
from bursar.simulate.report.page.charts import over_time_charts
from bursar.simulate.report.page.gantt import gantt_charts
from bursar.simulate.report.page.runs import PageRun, gather
from bursar.simulate.report.page.shares import share_charts
from bursar.simulate.report.page.tables import size_tables, team_tables


def page_html(summaries: Sequence[Summary], series: Sequence[Series]) -> str:
    """The page of one or several runs; the others are compared with the first."""
    runs = gather(summaries, series)
    if not runs.each:
        raise ValueError("a page needs at least one run")
    metrics = compare([run.summary for run in runs.each])
    groups = groupby(metrics, key=lambda line: line.metric.group)
    return (
        environment()
        .get_template("report/page.html")
        .render(
            title=" / ".join(run.name for run in runs.each),
            runs=runs,
            first=_describe(runs.each[0]),
            groups=[(group, list(lines)) for group, lines in groups],
            charts=over_time_charts(runs),
            shares=share_charts(runs),
            teams_in_all=max(run.series.teams_in_all for run in runs.each),
            gantts=gantt_charts(runs),
            team_tables=team_tables(runs),
            size_tables=size_tables(runs),
        )
    )


def _describe(run: PageRun) -> str:
    jobs, gpus = run.summary.outcomes, run.series.gpus
    max_gpus = max(gpus, default=0.0)
    return (
        f"{counted(jobs.submitted, 'job')} of {counted(len(run.summary.teams), 'team')} "
        f"on up to {counted(round(max_gpus), 'GPU')}, {write_time(run.summary.makespan_ms)} from the first "
        f"submission to the last end; {write_count(jobs.succeeded)} succeeded, "
        f"{write_count(jobs.failed)} failed, {write_count(jobs.cancelled)} were cancelled, "
        f"{write_count(jobs.unfinished)} did not finish"
    )

"""Assembles the page from its sections."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from bursar.model.units import counted
from bursar.simulate.metrics.series import Series
from bursar.simulate.metrics.summary import Summary
from bursar.simulate.report.metric_rows import write_count, write_time
from bursar.simulate.report.page.charts import cost_charts, gpu_chart, queue_chart, wait_chart
from bursar.simulate.report.page.gantt import gantt_section
from bursar.simulate.report.page.html import Html, tag, text
from bursar.simulate.report.page.runs import PageRun, PageRuns, gather
from bursar.simulate.report.page.shares import share_section
from bursar.simulate.report.page.style import SCRIPT, STYLE
from bursar.simulate.report.page.tables import by_size, by_team, headline

DEFINITIONS = (
    "Waits, completion times and slowdowns are those of succeeded jobs; quantiles are by nearest rank. A "
    "wait is the queued time of all attempts. Slowdown is the time from being ready to the end, divided by "
    "the time of useful work (at least 10 s). Useful GPU time is the time held, less lost work and "
    "restarts. Fragmentation is the fraction of free GPU time on partly used nodes. The share error is the "
    "difference between a team's share of GPU time and its entitlement, in windows of an hour. Idle "
    "dollars are the cost of the fleet less the cost of what was held."
)


def write_page(
    summaries: Summary | Sequence[Summary], series: Series | Sequence[Series], path: Path | str
) -> None:
    """Writes one file for one or several runs; the others are compared with the first."""
    Path(path).write_text(page_html(summaries, series), encoding="utf-8")


def page_html(summaries: Summary | Sequence[Summary], series: Series | Sequence[Series]) -> str:
    runs = gather(
        [summaries] if isinstance(summaries, Summary) else summaries,
        [series] if isinstance(series, Series) else series,
    )
    if not runs.each:
        raise ValueError("a page needs at least one run")
    title = " / ".join(run.name for run in runs.each)
    return "<!doctype html>\n" + tag(
        "html",
        _head(f"Simulation: {title}"),
        tag("body", tag("main", *_content(runs, title)), tag("script", Html(SCRIPT))),
        lang="en",
    )


def _head(title: str) -> Html:
    """The security policy allows no requests and no script but ours."""
    hashed = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hashed}'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("title", text(title)),
        tag("style", Html(STYLE)),
    )


def _content(runs: PageRuns, title: str) -> list[Html]:
    return [
        tag("header", tag("h1", text(title)), tag("p", text(_lead(runs)), class_="lead")),
        headline(runs),
        tag(
            "section",
            tag("h2", text("Over time")),
            tag(
                "div",
                queue_chart(runs),
                gpu_chart(runs),
                wait_chart(runs),
                cost_charts(runs),
                class_="grid",
            ),
        ),
        share_section(runs),
        gantt_section(runs),
        by_team(runs),
        by_size(runs),
        tag("footer", tag("p", text(DEFINITIONS))),
    ]


def _lead(runs: PageRuns) -> str:
    if runs.is_single:
        return f"{_describe(runs.each[0])}."
    first = runs.each[0]
    return f"Comparison of {len(runs.each)} runs. The first, {first.name}: {_describe(first)}."


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

"""Plots of queue length, GPU use, waits and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.simulate.report.metric_rows import write_time
from bursar.simulate.report.page.axes import (
    ChartAxis,
    percent_axis,
    time_axis,
    value_axis,
    wait_axis,
)
from bursar.simulate.report.page.curve import Box, Curve, add, curve_of, highest, step_path
from bursar.simulate.report.page.plot import (
    WRITERS,
    Chart,
    PageTable,
    PlotMark,
    area,
    line,
    numbers_over_time,
)
from bursar.simulate.report.page.runs import PageRun, PageRuns

ROWS_OF_NUMBERS = 12
MARKET_STYLES = {"owned": "c0", "reserved": "c6", "on-demand": "c1", "spot": "c2"}


def over_time_charts(runs: PageRuns) -> list[Chart]:
    stacks = [_stack(run) for run in runs.each]
    y = value_axis(
        highest([stack[-1][1] for stack in stacks]),
        "dollars an hour",
        "dollars",
        lambda dollars: f"${write_short(dollars)}",
    )
    costs = [_cost_chart(run, stack, runs, y) for run, stack in zip(runs.each, stacks, strict=True)]
    return [_queue_chart(runs), _gpu_chart(runs), _wait_chart(runs), *costs]


def _queue_chart(runs: PageRuns) -> Chart:
    """Queued jobs over time."""
    curves = [curve_of(run.series, run.series.waiting_jobs) for run in runs.each]
    subject = _Subject(
        key="queue",
        title="Queue length",
        note="Queued jobs, averaged over each interval.",
        y=value_axis(highest(curves), "jobs", "number", write_short),
    )
    return _over_time(runs, curves, subject)


def _gpu_chart(runs: PageRuns) -> Chart:
    """GPUs held: with the total for one run, as a percentage of it for several."""
    if runs.is_single:
        series = runs.each[0].series
        curves, total = [curve_of(series, series.gpus_held)], curve_of(series, series.gpus)
        reference = ("all GPUs", total)
        y = value_axis(highest([*curves, total]), "GPUs", "number", write_short)
        note = "GPUs held by jobs, and all GPUs of the fleet."
    else:
        curves, reference = [_held_fraction(run) for run in runs.each], None
        y = percent_axis("of all GPUs")
        note = "GPUs held by jobs, as a percentage of all GPUs of the fleet."
    subject = _Subject(key="gpus", title="GPUs in use", note=note, y=y, reference=reference)
    return _over_time(runs, curves, subject)


def _held_fraction(run: PageRun) -> Curve:
    fractions = [
        held / total if total else 0.0
        for held, total in zip(run.series.gpus_held, run.series.gpus, strict=True)
    ]
    return curve_of(run.series, fractions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """The subject of a plot over time. ``reference`` is one more curve, drawn dashed."""

    key: str
    title: str
    note: str
    y: ChartAxis
    reference: tuple[str, Curve] | None = None


def _over_time(runs: PageRuns, curves: Sequence[Curve], subject: _Subject) -> Chart:
    """One curve for each run; that of a single run is filled."""
    box = Box(x_axis=time_axis(runs.longest_ms), y_axis=subject.y)
    named = list(zip(runs.each, curves, strict=True))
    write = WRITERS[subject.y.form]
    means = "; ".join(f"{run.name} {write(curve.mean)}" for run, curve in named)
    marks = [area(curves[0], curves[0].zero, box, "c0 pale")] if runs.is_single else []
    legend = runs.legend
    if subject.reference is not None:
        name, reference = subject.reference
        marks.append(line(reference, box, name, "aside"))
        legend = [*legend, (name, "aside")]
    return Chart(
        key=subject.key,
        title=subject.title,
        note=subject.note,
        description=f"{subject.note} On average: {means}",
        box=box,
        marks=[*marks, *(line(curve, box, run.name, run.style) for run, curve in named)],
        legend=legend,
        numbers=numbers_over_time(
            box, runs.longest_ms, ROWS_OF_NUMBERS, [(run.name, curve) for run, curve in named]
        ),
    )


def write_short(value: float) -> str:
    """A number for an axis tick: ``2.5k`` instead of ``2,500``."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


# -- waits ---------------------------------------------------------------------------------------


def _wait_chart(runs: PageRuns) -> Chart:
    """The cumulative distribution of waits."""
    longest = max(max(run.series.wait_quantiles_ms, default=0) for run in runs.each)
    box = Box(x_axis=wait_axis(longest), y_axis=percent_axis("of the jobs"))
    return Chart(
        key="waits",
        title="How long jobs waited",
        note="Percentage of finished jobs that waited no longer than this. Further left is better.",
        description="For each run, the percentage of jobs that waited no longer than a given time. "
        + "; ".join(
            f"{run.name}: half {write_time(run.summary.times.wait_ms.p50)}, "
            f"99 % {write_time(run.summary.times.wait_ms.p99)}"
            for run in runs.each
        ),
        box=box,
        marks=[line(_distribution(run, box), box, run.name, run.style) for run in runs.each],
        legend=runs.legend,
        numbers=PageTable(
            head=["of the jobs", *(run.name for run in runs.each)],
            rows=[
                [f"{percent} %", *(write_time(_quantile(run, percent)) for run in runs.each)]
                for percent in (25, 50, 75, 90, 95, 99, 100)
            ],
        ),
    )


def _quantile(run: PageRun, percent: int) -> int:
    waits = run.series.wait_quantiles_ms
    return waits[max(0, -(-percent * len(waits) // 100) - 1)] if waits else 0


def _distribution(run: PageRun, box: Box) -> Curve:
    """A step up at each quantile; a run without finished jobs has no curve."""
    waits = run.series.wait_quantiles_ms
    if not waits:
        return Curve((0,), ())
    heights = (n / len(waits) for n in range(len(waits) + 1))
    return Curve((0, *waits, round(box.x_axis.high)), tuple(heights))


# -- cost ----------------------------------------------------------------------------------------


def _stack(run: PageRun) -> list[tuple[str, Curve]]:
    """The upper edges of the stacked areas, lowest first; idle is on top, and never negative."""
    stack: list[tuple[str, Curve]] = []
    for market, values in run.series.usd_per_hour.items():
        curve = curve_of(run.series, values)
        stack.append((market, add(stack[-1][1], curve) if stack else curve))
    idle = curve_of(run.series, [max(0.0, value) for value in run.series.idle_usd_per_hour])
    stack.append(("idle", add(stack[-1][1], idle) if stack else idle))
    return stack


def _cost_chart(
    run: PageRun, stack: Sequence[tuple[str, Curve]], runs: PageRuns, y: ChartAxis
) -> Chart:
    """Dollars an hour: held capacity by purchase option, and idle capacity."""
    total = sum(run.summary.cost.capacity.values()) / 1e6
    idle = sum(run.summary.cost.idle.values()) / 1e6
    box = Box(x_axis=time_axis(runs.longest_ms), y_axis=y)
    legend = [(name, MARKET_STYLES.get(name, "idle")) for name, _ in stack]
    below = stack[0][1].zero
    marks = []
    for (name, top), (_, style) in zip(stack, legend, strict=True):
        edge = PlotMark(path=step_path(top, box), style=f"edge {style}", name=name, stacked=True)
        marks += [area(top, below, box, style), edge]
        below = top
    dollars = {**run.series.usd_per_hour, "idle": run.series.idle_usd_per_hour}
    curves = [(name, curve_of(run.series, values)) for name, values in dollars.items()]
    return Chart(
        key=f"cost-{run.number}",
        title=runs.title("Cost over time", run),
        note="Dollars an hour for GPUs held, by purchase option; idle capacity is paid for but unused.",
        description=f"Dollars an hour by purchase option; ${total:,.0f} in all, ${idle:,.0f} idle.",
        box=box,
        marks=marks,
        legend=legend,
        numbers=numbers_over_time(box, run.length_ms, ROWS_OF_NUMBERS, curves),
    )

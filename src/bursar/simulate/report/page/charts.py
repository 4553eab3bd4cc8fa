"""Plots of queue length, GPU use, waits and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bursar.simulate.report.metric_rows import write_number, write_percent, write_time
from bursar.simulate.report.page.axes import (
    ChartAxis,
    percent_axis,
    time_axis,
    value_axis,
    wait_axis,
)
from bursar.simulate.report.page.curve import Curve, add, area_path, curve_of, step_path
from bursar.simulate.report.page.html import Html, join, number
from bursar.simulate.report.page.plot import (
    Frame,
    area,
    colour,
    draw,
    edge,
    figure,
    legend,
    line,
    numbers,
)
from bursar.simulate.report.page.runs import PageRun, PageRuns

ROWS_OF_NUMBERS = 12
MARKET_STYLES = {"owned": "c0", "reserved": "c6", "on-demand": "c1", "spot": "c2"}


def queue_chart(runs: PageRuns) -> Html:
    """Queued jobs over time."""
    curves = [curve_of(run.series, run.series.waiting_jobs) for run in runs.each]
    y = value_axis(_highest(curves), "jobs", "number", write_short)
    subject = _Subject(
        key="queue",
        title="Queue length",
        note="Queued jobs, averaged over each interval.",
        y=y,
        write=write_number,
    )
    return _over_time(runs, curves, subject)


def gpu_chart(runs: PageRuns) -> Html:
    """GPUs held: with the total for one run, as a percentage of it for several."""
    if runs.is_single:
        run = runs.each[0]
        held = curve_of(run.series, run.series.gpus_held)
        total = curve_of(run.series, run.series.gpus)
        subject = _Subject(
            key="gpus",
            title="GPUs in use",
            note="GPUs held by jobs, and all GPUs of the fleet.",
            y=value_axis(_highest([held, total]), "GPUs", "number", write_short),
            write=write_number,
            reference=("all GPUs", total),
        )
        return _over_time(runs, [held], subject)
    subject = _Subject(
        key="gpus",
        title="GPUs in use",
        note="GPUs held by jobs, as a percentage of all GPUs of the fleet.",
        y=percent_axis("of all GPUs"),
        write=write_percent,
    )
    return _over_time(runs, [_held_fraction(run) for run in runs.each], subject)


def wait_chart(runs: PageRuns) -> Html:
    """The cumulative distribution of waits."""
    longest = max((max(run.series.wait_quantiles_ms, default=0) for run in runs.each), default=0)
    x, y = wait_axis(longest), percent_axis("of the jobs")
    frame = Frame(
        key="waits",
        title="How long jobs waited",
        description="For each run, the percentage of jobs that waited no longer than a given time. "
        + "; ".join(
            f"{run.name}: half {write_time(run.summary.times.wait_ms.p50)}, "
            f"99 % {write_time(run.summary.times.wait_ms.p99)}"
            for run in runs.each
        ),
    )
    marks = [line(_wait_path(run, frame, x, y), run.name, colour(run.number)) for run in runs.each]
    rows = [
        [f"{percent} %", *(write_time(_quantile(run, percent)) for run in runs.each)]
        for percent in (25, 50, 75, 90, 95, 99, 100)
    ]
    return figure(
        frame.title,
        "Percentage of finished jobs that waited no longer than this. Further left is better.",
        draw(frame, x, y, marks),
        legend([(run.name, colour(run.number)) for run in runs.each]),
        numbers(["of the jobs", *(run.name for run in runs.each)], rows),
    )


def cost_charts(runs: PageRuns) -> Html:
    """Dollars an hour: held capacity by purchase option, and idle capacity."""
    highest = max(_highest([_stack(run)[-1][1]]) for run in runs.each)
    y = value_axis(highest, "dollars an hour", "dollars", _write_dollars_short)
    return join(_cost_chart(run, runs, y) for run in runs.each)


# -- cost ----------------------------------------------------------------------------------------


def _cost_chart(run: PageRun, runs: PageRuns, y: ChartAxis) -> Html:
    x = time_axis(runs.longest_ms)
    title = "Cost over time" if runs.is_single else f"Cost over time: {run.name}"
    total = sum(run.summary.cost.capacity.values()) / 1e6
    idle = sum(run.summary.cost.idle.values()) / 1e6
    frame = Frame(
        key=f"cost-{run.number}",
        title=title,
        description=f"Dollars an hour by purchase option; ${total:,.0f} in all, ${idle:,.0f} idle.",
    )
    below = Curve(_stack(run)[0][1].edges, tuple(0.0 for _ in _stack(run)[0][1].values))
    marks, entries = [], []
    for name, top in _stack(run):
        style = MARKET_STYLES.get(name, "idle")
        marks.append(area(area_path(top, below, frame.box, (x, y)), style))
        marks.append(edge(step_path(top, frame.box, x, y), name, style))
        entries.append((name, style))
        below = top
    head = ["time", *run.series.usd_per_hour, "idle"]
    curves = [curve_of(run.series, c) for c in run.series.usd_per_hour.values()]
    curves.append(curve_of(run.series, run.series.idle_usd_per_hour))
    rows = [
        [write_time(at_ms), *(f"${curve.at(at_ms):,.2f}" for curve in curves)]
        for at_ms in _table_times(run.length_ms)
    ]
    note = (
        "Dollars an hour for GPUs held, by purchase option; idle capacity is paid for but unused."
    )
    return figure(title, note, draw(frame, x, y, marks), legend(entries), numbers(head, rows))


def _stack(run: PageRun) -> list[tuple[str, Curve]]:
    """The upper edges of the stacked areas, lowest first; idle is on top, and never negative."""
    stack: list[tuple[str, Curve]] = []
    for market, values in run.series.usd_per_hour.items():
        curve = curve_of(run.series, values)
        stack.append((market, add(stack[-1][1], curve) if stack else curve))
    idle = curve_of(run.series, [max(0.0, value) for value in run.series.idle_usd_per_hour])
    stack.append(("idle", add(stack[-1][1], idle) if stack else idle))
    return stack


# -- plots over time -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """The subject of a plot over time. ``reference`` is one more curve, drawn dashed."""

    key: str
    title: str
    note: str
    y: ChartAxis
    write: Callable[[float], str]
    reference: tuple[str, Curve] | None = None


def _over_time(runs: PageRuns, curves: Sequence[Curve], subject: _Subject) -> Html:
    """One curve for each run; that of a single run is filled."""
    x, y = time_axis(runs.longest_ms), subject.y
    means = [_mean(curve) for curve in curves]
    frame = Frame(
        key=subject.key,
        title=subject.title,
        description=f"{subject.note} On average: "
        + "; ".join(f"{r.name} {subject.write(m)}" for r, m in zip(runs.each, means, strict=True)),
    )
    marks = []
    if runs.is_single:
        zero = Curve(curves[0].edges, tuple(0.0 for _ in curves[0].values))
        marks.append(area(area_path(curves[0], zero, frame.box, (x, y)), "c0 pale"))
    entries = [(run.name, colour(run.number)) for run in runs.each]
    if subject.reference is not None:
        name, curve = subject.reference
        marks.append(line(step_path(curve, frame.box, x, y), name, "aside"))
        entries.append((name, "aside"))
    marks += [
        line(step_path(curve, frame.box, x, y), run.name, colour(run.number))
        for run, curve in zip(runs.each, curves, strict=True)
    ]
    rows = [
        [write_time(at_ms), *(subject.write(curve.at(at_ms)) for curve in curves)]
        for at_ms in _table_times(runs.longest_ms)
    ]
    return figure(
        subject.title,
        subject.note,
        draw(frame, x, y, marks),
        legend(entries),
        numbers(["time", *(run.name for run in runs.each)], rows),
    )


def _highest(curves: Sequence[Curve]) -> float:
    return max((max(curve.values, default=0.0) for curve in curves), default=0.0)


def _mean(curve: Curve) -> float:
    spans = [b - a for a, b in pairwise(curve.edges)]
    total = sum(value * span for value, span in zip(curve.values, spans, strict=True))
    return total / max(1, sum(spans))


def _table_times(length_ms: int) -> list[int]:
    """Evenly spaced times for the rows of a table."""
    return [length_ms * n // ROWS_OF_NUMBERS for n in range(ROWS_OF_NUMBERS)] if length_ms else [0]


def _quantile(run: PageRun, percent: int) -> int:
    waits = run.series.wait_quantiles_ms
    return waits[max(0, -(-percent * len(waits) // 100) - 1)] if waits else 0


def write_short(value: float) -> str:
    """For the ticks of an axis: ``2.5k`` instead of ``2,500``."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _write_dollars_short(value: float) -> str:
    return f"${write_short(value)}"


def _held_fraction(run: PageRun) -> Curve:
    fractions = [
        held / total if total else 0.0
        for held, total in zip(run.series.gpus_held, run.series.gpus, strict=True)
    ]
    return curve_of(run.series, fractions)


def _wait_path(run: PageRun, frame: Frame, x: ChartAxis, y: ChartAxis) -> str:
    """A step at each quantile; a run without finished jobs has no curve."""
    waits = run.series.wait_quantiles_ms
    box = frame.box
    if not waits:
        return ""
    parts = [f"M{number(box.x(x, 0))} {number(box.y(y, 0))}"]
    for index, wait_ms in enumerate(waits):
        fraction = (index + 1) / len(waits)
        parts.append(f"H{number(box.x(x, wait_ms))}V{number(box.y(y, fraction))}")
    parts.append(f"H{number(box.left + box.width)}")
    return "".join(parts)

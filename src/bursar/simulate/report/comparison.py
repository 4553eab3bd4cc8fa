"""Compares runs of one workload: every metric, the best run, and the difference to the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bursar.simulate.metrics.summary import Summary
from bursar.simulate.report.aligned import aligned
from bursar.simulate.report.metric_rows import LESS, MORE, NEITHER, MetricRow, metric_rows

BEST = "*"
NOTHING = "-"
SMALL_CHANGE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonCell:
    """One metric of one run. ``change`` is the relative difference to the first run."""

    value: float | None
    text: str
    change: float | None
    best: bool
    improves: bool | None
    """Whether the change is for the better; None where it is too small, or neither direction is better."""

    @property
    def change_text(self) -> str:
        return write_change(self.change)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLine:
    """One metric of all runs."""

    metric: MetricRow
    cells: tuple[ComparisonCell, ...]


def compare(summaries: Sequence[Summary]) -> tuple[MetricLine, ...]:
    """Every metric of every run. A metric without a value in any run is omitted."""
    lines = []
    for metric in metric_rows(summaries):
        values = [metric.value(summary) for summary in summaries]
        if any(value is not None for value in values):
            lines.append(MetricLine(metric=metric, cells=_cells(metric, values)))
    return tuple(lines)


def _cells(metric: MetricRow, values: Sequence[float | None]) -> tuple[ComparisonCell, ...]:
    known = [value for value in values if value is not None]
    best = None
    if metric.better and len(known) > 1 and min(known) < max(known):
        best = max(known) if metric.better > 0 else min(known)
    cells = []
    for number, value in enumerate(values):
        change = change_from(values[0], value) if number else None
        cell = ComparisonCell(
            value=value,
            text=NOTHING if value is None else metric.write(value),
            change=change,
            best=best is not None and value == best,
            improves=_improves(change, metric.better),
        )
        cells.append(cell)
    return tuple(cells)


def _improves(change: float | None, better: int) -> bool | None:
    if change is None or not better or abs(change) < SMALL_CHANGE:
        return None
    return (change > 0) == (better > 0)


def change_from(first: float | None, value: float | None) -> float | None:
    """The relative difference of a value to the first; None without a first value or if it is zero."""
    if first is None or value is None:
        return None
    if first == value:
        return 0.0
    return (value - first) / abs(first) if first else None


def write_change(change: float | None) -> str:
    """``+12 %``; changes below 10 % have a decimal, and no change is a plain zero."""
    if change is None:
        return ""
    percent = 100 * change
    text = f"{percent:+.0f}" if abs(percent) >= 10 else f"{percent:+.1f}"
    return "0 %" if text in ("+0.0", "-0.0") else f"{text} %"


def compare_table(summaries: Sequence[Summary]) -> str:
    """A row for each metric, a column for each run, with marks for the best and differences."""
    if not summaries:
        return ""
    metrics = compare(summaries)
    columns = [["", *(line.metric.label for line in metrics)]]
    for number, summary in enumerate(summaries):
        columns.append(_column(summary.name, [line.cells[number] for line in metrics]))
    lines = aligned(list(zip(*columns, strict=True)))
    if len(summaries) > 1:
        lines += ["", f"{BEST} best run; percentages are differences to {summaries[0].name}"]
    return "\n".join(lines) + "\n"


def _column(name: str, cells: Sequence[ComparisonCell]) -> list[str]:
    """The values of a run, each with its mark and its change; an empty column of changes is omitted."""
    rows = [
        (name, "", ""),
        *((cell.text, BEST if cell.best else "", cell.change_text) for cell in cells),
    ]
    width = max(len(change) for _, _, change in rows)
    if not width:
        return [f"{value} {mark or ' '}" for value, mark, _ in rows]
    return [f"{value} {mark or ' '} {change:>{width}}" for value, mark, change in rows]


def compare_json(summaries: Sequence[Summary]) -> dict[str, Any]:
    """The comparison as JSON: each metric with its values, changes and best runs."""
    lines: list[Any] = [
        {
            "group": line.metric.group,
            "measure": line.metric.label,
            "better": {LESS: "less", NEITHER: None, MORE: "more"}[line.metric.better],
            "values": [cell.value for cell in line.cells],
            "changes": [cell.change for cell in line.cells],
            "best": [number for number, cell in enumerate(line.cells) if cell.best],
        }
        for line in compare(summaries)
    ]
    return {
        "runs": [summary.name for summary in summaries],
        "measures": lines,
        "summaries": [summary.as_json() for summary in summaries],
    }

"""Compares runs of one workload: every metric, the best run, and the difference to the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bursar.simulate.metrics.summary import Summary
from bursar.simulate.report.metric_rows import MetricRow, metric_rows

BEST = "*"
NOTHING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonCell:
    """One metric of one run. ``change`` is the relative difference to the first run."""

    value: float | None
    text: str
    change: float | None
    best: bool


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
    return tuple(
        ComparisonCell(
            value=value,
            text=NOTHING if value is None else metric.write(value),
            change=None if number == 0 else change_from(values[0], value),
            best=best is not None and value == best,
        )
        for number, value in enumerate(values)
    )


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
    rows = [["", *(cell for s in summaries for cell in (s.name, "", ""))]]
    for line in compare(summaries):
        row = [line.metric.label]
        for cell in line.cells:
            row += [cell.text, BEST if cell.best else "", write_change(cell.change)]
        rows.append(row)
    lines = _align(rows)
    if len(summaries) > 1:
        lines += ["", f"{BEST} best run; percentages are differences to {summaries[0].name}"]
    return "\n".join(lines) + "\n"


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Labels to the left, numbers to the right; an empty column of changes is omitted."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        for column in range(1, len(row), 3):
            value, mark, change = row[column : column + 3]
            cells.append("  " + value.rjust(widths[column]) + " " + (mark or " "))
            if widths[column + 2]:
                cells.append(" " + change.rjust(widths[column + 2]))
        lines.append("".join(cells).rstrip())
    return lines


def compare_json(summaries: Sequence[Summary]) -> dict[str, Any]:
    """The comparison as JSON: each metric with its values, changes and best runs."""
    lines: list[Any] = [
        {
            "group": line.metric.group,
            "measure": line.metric.label,
            "better": {-1: "less", 0: None, 1: "more"}[line.metric.better],
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

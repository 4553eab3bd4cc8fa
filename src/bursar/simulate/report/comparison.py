"""Several runs of one workload beside each other: which was best at what, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bursar.simulate.metrics.summary import Summary
from bursar.simulate.report.metric_rows import MetricRow, measures_of

BEST = "*"
NOTHING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonCell:
    """One measure of one run. ``change`` is the difference to the first run as a part of its value."""

    value: float | None
    text: str
    change: float | None
    best: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLine:
    """One measure of all runs."""

    measure: MetricRow
    cells: tuple[ComparisonCell, ...]


def compare(summaries: Sequence[Summary]) -> tuple[MetricLine, ...]:
    """Every measure of every run. What no run can tell is left out."""
    lines = []
    for measure in measures_of(summaries):
        values = [measure.value(summary) for summary in summaries]
        if any(value is not None for value in values):
            lines.append(MetricLine(measure=measure, cells=_cells(measure, values)))
    return tuple(lines)


def _cells(measure: MetricRow, values: Sequence[float | None]) -> tuple[ComparisonCell, ...]:
    known = [value for value in values if value is not None]
    best = None
    if measure.better and len(known) > 1 and min(known) < max(known):
        best = max(known) if measure.better > 0 else min(known)
    return tuple(
        ComparisonCell(
            value=value,
            text=NOTHING if value is None else measure.write(value),
            change=None if number == 0 else change_from(values[0], value),
            best=best is not None and value == best,
        )
        for number, value in enumerate(values)
    )


def change_from(first: float | None, value: float | None) -> float | None:
    """By what part of the first a value differs from it; None when there is nothing to divide by."""
    if first is None or value is None:
        return None
    if first == value:
        return 0.0
    return (value - first) / abs(first) if first else None


def write_change(change: float | None) -> str:
    """``+12 %``; small changes keep a decimal, and none is a plain zero."""
    if change is None:
        return ""
    percent = 100 * change
    text = f"{percent:+.0f}" if abs(percent) >= 10 else f"{percent:+.1f}"
    return "0 %" if text in ("+0.0", "-0.0") else f"{text} %"


def compare_table(summaries: Sequence[Summary]) -> str:
    """Measures down, runs across; the best is marked, and percent is the difference to the first."""
    if not summaries:
        return ""
    rows = [["", *(part for s in summaries for part in (s.name, "", ""))]]
    for line in compare(summaries):
        row = [line.measure.label]
        for cell in line.cells:
            row += [cell.text, BEST if cell.best else "", write_change(cell.change)]
        rows.append(row)
    lines = _align(rows)
    if len(summaries) > 1:
        lines += ["", f"{BEST} best of the runs; percent is the difference to {summaries[0].name}"]
    return "\n".join(lines) + "\n"


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Labels to the left, numbers to the right; a column in which nobody writes takes no room."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        parts = [row[0].ljust(widths[0])]
        for column in range(1, len(row), 3):
            value, mark, change = row[column : column + 3]
            parts.append("  " + value.rjust(widths[column]) + " " + (mark or " "))
            if widths[column + 2]:
                parts.append(" " + change.rjust(widths[column + 2]))
        lines.append("".join(parts).rstrip())
    return lines


def compare_json(summaries: Sequence[Summary]) -> dict[str, Any]:
    """The same for programs: each measure with its values, its changes and its best runs."""
    lines: list[Any] = [
        {
            "group": line.measure.group,
            "measure": line.measure.label,
            "better": {-1: "less", 0: None, 1: "more"}[line.measure.better],
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

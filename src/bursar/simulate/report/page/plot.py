"""Plots: what the templates draw, as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bursar.simulate.report.metric_rows import write_number, write_percent, write_time
from bursar.simulate.report.page.curve import Box, Curve, area_path, step_path

WRITERS: dict[str, Callable[[float], str]] = {
    "number": write_number,
    "percent": write_percent,
    "dollars": "${:,.2f}".format,
}
"""How values are written, by the form of their axis."""
LegendEntries = Sequence[tuple[str, str]]
"""Names with their styles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotMark:
    """A path of a plot. With a name it is in the tooltip; a stacked one counts from the one below."""

    path: str
    style: str
    name: str | None = None
    stacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """A plain table: the first column names the rows."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A plot with its numbers. ``description`` is for screen readers, ``key`` makes its ids unique."""

    key: str
    title: str
    note: str = ""
    description: str
    box: Box
    marks: Sequence[PlotMark]
    legend: LegendEntries = ()
    numbers: PageTable


def line(curve: Curve, box: Box, name: str, style: str) -> PlotMark:
    return PlotMark(path=step_path(curve, box), style=f"line {style}", name=name)


def area(top: Curve, bottom: Curve, box: Box, style: str) -> PlotMark:
    return PlotMark(path=area_path(top, bottom, box), style=f"area {style}")


def numbers_over_time(
    box: Box, length_ms: int, rows: int, curves: Sequence[tuple[str, Curve]]
) -> PageTable:
    """The values of named curves at evenly spaced times."""
    write = WRITERS[box.y_axis.form]
    times_ms = [length_ms * n // rows for n in range(rows)] if length_ms else [0]
    return PageTable(
        head=["time", *(name for name, _ in curves)],
        rows=[
            [write_time(at_ms), *(write(curve.at(at_ms)) for _, curve in curves)]
            for at_ms in times_ms
        ],
    )

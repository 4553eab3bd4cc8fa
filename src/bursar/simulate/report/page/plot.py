"""Plots: what the templates draw, as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bursar.simulate.report.metric_rows import write_time
from bursar.simulate.report.page.curve import Box, Curve, area_path, step_path

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
    length_ms: int, rows: int, columns: Sequence[tuple[str, Curve, Callable[[float], str]]]
) -> PageTable:
    """The values of curves at evenly spaced times."""
    times_ms = [length_ms * n // rows for n in range(rows)] if length_ms else [0]
    return PageTable(
        head=["time", *(name for name, _, _ in columns)],
        rows=[
            [write_time(at_ms), *(write(curve.at(at_ms)) for _, curve, write in columns)]
            for at_ms in times_ms
        ],
    )

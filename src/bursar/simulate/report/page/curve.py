"""Curves made of steps: a series holds a mean for each window, and is drawn as such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.simulate.metrics.series import Series
from bursar.simulate.report.page.axes import ChartAxis
from bursar.simulate.report.page.html import number

MOST_STEPS = 360


@dataclass(frozen=True, slots=True)
class Curve:
    """Values between edges: ``values[i]`` holds from ``edges[i]`` to ``edges[i + 1]``."""

    edges: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, moment: float) -> float:
        """The value at a moment; outside, that at the nearest end."""
        for edge, value in zip(self.edges[1:], self.values, strict=True):
            if moment < edge:
                return value
        return self.values[-1] if self.values else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The part of a plot in which curves are drawn, in its own coordinates."""

    left: float
    top: float
    width: float
    height: float

    def x(self, axis: ChartAxis, value: float) -> float:
        return self.left + self.width * axis.part(value)

    def y(self, axis: ChartAxis, value: float) -> float:
        return self.top + self.height * (1 - min(1.0, max(0.0, axis.part(value))))


def curve_of(series: Series, values: Sequence[float]) -> Curve:
    """A curve since the start of the run, with no more steps than a plot can show."""
    length_ms = series.ended_ms - series.began_ms
    edges = [min(length_ms, n * series.width_ms) for n in range(len(values))] + [length_ms]
    together = -(-len(values) // MOST_STEPS)
    if together <= 1:
        return Curve(tuple(edges), tuple(values))
    merged = []
    for first in range(0, len(values), together):
        last = min(len(values), first + together)
        spans = [edges[n + 1] - edges[n] for n in range(first, last)]
        total = sum(value * span for value, span in zip(values[first:last], spans, strict=True))
        merged.append(total / max(1, sum(spans)))
    return Curve((*edges[:-1:together], length_ms), tuple(merged))


def add(one: Curve, other: Curve) -> Curve:
    """Two curves of the same run on top of each other."""
    return Curve(one.edges, tuple(a + b for a, b in zip(one.values, other.values, strict=True)))


def step_path(curve: Curve, box: Box, x: ChartAxis, y: ChartAxis) -> str:
    """Across for as long as a value holds, then up or down to the next."""
    if not curve.values:
        return ""
    height = number(box.y(y, curve.values[0]))
    parts = [f"M{number(box.x(x, curve.edges[0]))} {height}"]
    for edge, value in zip(curve.edges[1:-1], curve.values[1:], strict=True):
        new = number(box.y(y, value))
        if new != height:
            parts.append(f"H{number(box.x(x, edge))}V{new}")
            height = new
    parts.append(f"H{number(box.x(x, curve.edges[-1]))}")
    return "".join(parts)


def area_path(top: Curve, bottom: Curve, box: Box, axes: tuple[ChartAxis, ChartAxis]) -> str:
    """The area between two curves: along the upper one, and back along the lower one."""
    x, y = axes
    if not top.values:
        return ""
    parts = [step_path(top, box, x, y)]
    height = ""
    for number_of in range(len(bottom.values) - 1, -1, -1):
        new = number(box.y(y, bottom.values[number_of]))
        if new != height:
            parts.append(f"H{number(box.x(x, bottom.edges[number_of + 1]))}V{new}")
            height = new
    parts.append(f"H{number(box.x(x, bottom.edges[0]))}Z")
    return "".join(parts)

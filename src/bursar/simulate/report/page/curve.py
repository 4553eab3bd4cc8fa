"""Step curves: each value is the mean of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.simulate.metrics.series import Series
from bursar.simulate.report.page.axes import ChartAxis
from bursar.simulate.report.page.html import number

MAX_STEPS = 360


@dataclass(frozen=True, slots=True)
class Curve:
    """Values between edges: ``values[i]`` holds from ``edges[i]`` to ``edges[i + 1]``."""

    edges: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, at_ms: float) -> float:
        """The value at a time; outside the curve, that of the nearest end."""
        for edge, value in zip(self.edges[1:], self.values, strict=True):
            if at_ms < edge:
                return value
        return self.values[-1] if self.values else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The area of a plot in which curves are drawn, in its coordinates."""

    left: float
    top: float
    width: float
    height: float

    def x(self, axis: ChartAxis, value: float) -> float:
        return self.left + self.width * axis.fraction(value)

    def y(self, axis: ChartAxis, value: float) -> float:
        return self.top + self.height * (1 - min(1.0, max(0.0, axis.fraction(value))))


def curve_of(series: Series, values: Sequence[float]) -> Curve:
    """A curve since the start of the run, averaged to at most as many steps as a plot can show."""
    length_ms = series.ended_ms - series.began_ms
    edges = [min(length_ms, n * series.width_ms) for n in range(len(values))] + [length_ms]
    merge = -(-len(values) // MAX_STEPS)
    if merge <= 1:
        return Curve(tuple(edges), tuple(values))
    merged = []
    for first in range(0, len(values), merge):
        last = min(len(values), first + merge)
        spans = [edges[n + 1] - edges[n] for n in range(first, last)]
        total = sum(value * span for value, span in zip(values[first:last], spans, strict=True))
        merged.append(total / max(1, sum(spans)))
    return Curve((*edges[:-1:merge], length_ms), tuple(merged))


def add(one: Curve, other: Curve) -> Curve:
    """The sum of two curves of the same run."""
    return Curve(one.edges, tuple(a + b for a, b in zip(one.values, other.values, strict=True)))


def step_path(curve: Curve, box: Box, x: ChartAxis, y: ChartAxis) -> str:
    """The SVG path of a step curve."""
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
    """The SVG path of the area between two curves."""
    x, y = axes
    if not top.values:
        return ""
    parts = [step_path(top, box, x, y)]
    height = ""
    for index in range(len(bottom.values) - 1, -1, -1):
        new = number(box.y(y, bottom.values[index]))
        if new != height:
            parts.append(f"H{number(box.x(x, bottom.edges[index + 1]))}V{new}")
            height = new
    parts.append(f"H{number(box.x(x, bottom.edges[0]))}Z")
    return "".join(parts)

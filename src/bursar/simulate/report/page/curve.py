"""Step curves, each value the mean of a window, and their paths in a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bursar.page_templates import coordinate
from bursar.simulate.metrics.series import Series
from bursar.simulate.report.page.axes import ChartAxis

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

    @property
    def mean(self) -> float:
        spans = [b - a for a, b in pairwise(self.edges)]
        total = sum(value * span for value, span in zip(self.values, spans, strict=True))
        return total / max(1, sum(spans))

    @property
    def zero(self) -> Curve:
        """Zero for the same time: the bottom of the area below the curve."""
        return Curve(self.edges, tuple(0.0 for _ in self.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The axes of a plot, and the area between them, in which curves are drawn."""

    x_axis: ChartAxis
    y_axis: ChartAxis
    left: float = 54.0
    top: float = 26.0
    width: float = 492.0
    height: float = 188.0

    def x(self, value: float) -> float:
        return self.left + self.width * self.x_axis.fraction(value)

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - min(1.0, max(0.0, self.y_axis.fraction(value))))


def curve_of(series: Series, values: Sequence[float]) -> Curve:
    """A curve since the start of the run, averaged to at most as many steps as a plot can show."""
    length_ms = series.ended_ms - series.began_ms
    edges = (*(min(length_ms, n * series.width_ms) for n in range(len(values))), length_ms)
    values = tuple(values)
    merge = -(-len(values) // MAX_STEPS)
    if merge <= 1:
        return Curve(edges, values)
    merged = [
        Curve(edges[first : first + merge + 1], values[first : first + merge]).mean
        for first in range(0, len(values), merge)
    ]
    return Curve((*edges[:-1:merge], length_ms), tuple(merged))


def add(one: Curve, other: Curve) -> Curve:
    """The sum of two curves of the same run."""
    return Curve(one.edges, tuple(a + b for a, b in zip(one.values, other.values, strict=True)))


def highest(curves: Sequence[Curve]) -> float:
    return max((max(curve.values, default=0.0) for curve in curves), default=0.0)


def step_path(curve: Curve, box: Box) -> str:
    """The SVG path of a step curve."""
    if not curve.values:
        return ""
    height = coordinate(box.y(curve.values[0]))
    parts = [f"M{coordinate(box.x(curve.edges[0]))} {height}"]
    for edge, value in zip(curve.edges[1:-1], curve.values[1:], strict=True):
        new = coordinate(box.y(value))
        if new != height:
            parts.append(f"H{coordinate(box.x(edge))}V{new}")
            height = new
    parts.append(f"H{coordinate(box.x(curve.edges[-1]))}")
    return "".join(parts)


def area_path(top: Curve, bottom: Curve, box: Box) -> str:
    """The SVG path of the area between two curves."""
    if not top.values:
        return ""
    parts = [step_path(top, box)]
    height = ""
    for index in range(len(bottom.values) - 1, -1, -1):
        new = coordinate(box.y(bottom.values[index]))
        if new != height:
            parts.append(f"H{coordinate(box.x(bottom.edges[index + 1]))}V{new}")
            height = new
    parts.append(f"H{coordinate(box.x(bottom.edges[0]))}Z")
    return "".join(parts)

"""Plots as SVG: axes, grid, curves, legends, and descriptions for screen readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bursar.simulate.report.page.axes import ChartAxis
from bursar.simulate.report.page.curve import Box
from bursar.simulate.report.page.html import Html, join, number, tag, text

LEFT, RIGHT, TOP, BOTTOM = 54.0, 14.0, 26.0, 40.0
OTHERS = "cx"
COLOURS = 8


def colour(index: int) -> str:
    """The class of the n-th colour; after the last, colours repeat."""
    return f"c{index % COLOURS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The size of a plot, its title, and its description for screen readers."""

    key: str
    title: str
    description: str
    width: float = 560.0
    height: float = 254.0

    @property
    def box(self) -> Box:
        return Box(
            left=LEFT,
            top=TOP,
            width=self.width - LEFT - RIGHT,
            height=self.height - TOP - BOTTOM,
        )


def draw(frame: Frame, x: ChartAxis, y: ChartAxis, marks: Iterable[Html]) -> Html:
    """The plot; its data attributes are for the tooltip script."""
    box = frame.box
    tooltip = {
        "data_x": f"{x.low:g} {x.high:g} {x.form} {'log' if x.logarithmic else 'even'}",
        "data_y": f"{y.low:g} {y.high:g} {y.form}",
        "data_box": f"{box.left:g} {box.top:g} {box.width:g} {box.height:g}",
    }
    return tag(
        "svg",
        tag("title", text(frame.title), id=f"{frame.key}-t"),
        tag("desc", text(frame.description), id=f"{frame.key}-d"),
        _grid(frame, y),
        _foot(frame, x),
        join(marks),
        tag("g", class_="cross"),
        viewBox=f"0 0 {frame.width:g} {frame.height:g}",
        role="img",
        aria_labelledby=f"{frame.key}-t {frame.key}-d",
        class_="plot",
        **tooltip,
    )


def _grid(frame: Frame, y: ChartAxis) -> Html:
    box = frame.box
    lines = [tag("text", text(y.title), x=6.0, y=10.0, class_="axis-title")]
    for value, label in y.ticks:
        at = box.y(y, value)
        kind = "axis" if value == y.low else "grid-line"
        lines.append(
            tag("path", d=f"M{number(box.left)} {number(at)}h{number(box.width)}", class_=kind)
        )
        lines.append(tag("text", text(label), x=box.left - 8, y=at + 4, class_="tick end"))
    return join(lines)


def _foot(frame: Frame, x: ChartAxis) -> Html:
    box = frame.box
    bottom = box.top + box.height
    parts = []
    for value, label in x.ticks:
        at = box.x(x, value)
        parts.append(tag("path", d=f"M{number(at)} {number(bottom)}v4", class_="axis"))
        parts.append(tag("text", text(label), x=at, y=bottom + 17, class_="tick middle"))
    middle = box.left + box.width / 2
    parts.append(tag("text", text(x.title), x=middle, y=bottom + 34, class_="axis-title middle"))
    return join(parts)


def line(path: str, name: str, style: str) -> Html:
    """A curve with a tooltip."""
    return tag("path", d=path, class_=f"line {style}", data_name=name)


def edge(path: str, name: str, style: str) -> Html:
    """The upper edge of a stacked area, with a tooltip."""
    return tag("path", d=path, class_=f"edge {style}", data_name=name, data_stacked="1")


def area(path: str, style: str) -> Html:
    return tag("path", d=path, class_=f"area {style}")


def legend(entries: Sequence[tuple[str, str]]) -> Html:
    """Names with their styles."""
    return tag(
        "ul",
        *(
            tag("li", tag("span", class_=f"key {style}", aria_hidden="true"), text(name))
            for name, style in entries
        ),
        class_="legend",
    )


def figure(title: str, note: str, *parts: Html, wide: bool = False) -> Html:
    """A plot with a heading, an explanation and further elements."""
    return tag(
        "figure",
        tag("figcaption", tag("h3", text(title)), tag("p", text(note))),
        *parts,
        class_="wide" if wide else None,
    )


def numbers(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    """The numbers of a plot as a table."""
    return tag(
        "details",
        tag("summary", text("Numbers")),
        tag("div", table(head, rows), class_="scroll"),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    """A plain table: the first column names the rows."""
    top = tag("tr", *(tag("th", text(cell), scope="col") for cell in head))
    body = [
        tag(
            "tr", tag("th", text(row[0]), scope="row"), *(tag("td", text(cell)) for cell in row[1:])
        )
        for row in rows
    ]
    return tag("table", tag("thead", top), tag("tbody", *body))

"""Who held which GPU when: a row for each node, and in it a line for each of its GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from bursar.simulate.metrics.series import Gantt, GanttBar
from bursar.simulate.report.metric_rows import write_time
from bursar.simulate.report.page.axes import ChartAxis, time_axis
from bursar.simulate.report.page.html import NOTHING, Html, join, number, tag, text
from bursar.simulate.report.page.plot import OTHERS, figure, legend
from bursar.simulate.report.page.runs import PageRun, PageRuns

WIDTH = 1140.0
LEFT, RIGHT, TOP, FOOT = 110.0, 14.0, 6.0, 40.0
GAP = 3.0
LONGEST_NAME = 15
MOST_RECTANGLES = 16_000


def gantt_section(runs: PageRuns) -> Html:
    """One chart below the other, so that the same moment stands in the same place."""
    charts = [_chart(run, runs) for run in runs.each if run.series.gantt.nodes]
    if not charts:
        return NOTHING
    return tag("section", tag("h2", text("Nodes")), join(charts))


def _chart(run: PageRun, runs: PageRuns) -> Html:
    gantt = run.series.gantt
    rows = _Rows(gantt)
    x = time_axis(runs.longest_ms, 12)
    bars, dropped = _widest(_merged(gantt.bars), MOST_RECTANGLES // len(runs.each))
    title = "Who held which GPU" if runs.alone else f"Who held which GPU: {run.name}"
    plot = tag(
        "svg",
        tag("title", text(title), id=f"gantt-{run.number}-t"),
        tag("desc", text(_describe(run)), id=f"gantt-{run.number}-d"),
        rows.ground(),
        _time_marks(x, rows.bottom),
        join(_paths(bars, rows, _styles(gantt, runs), _column_width(run, runs))),
        viewBox=f"0 0 {WIDTH:g} {rows.bottom + FOOT:g}",
        role="img",
        aria_labelledby=f"gantt-{run.number}-t gantt-{run.number}-d",
        class_="plot",
    )
    return figure(title, _note(run, dropped), plot, _legend(bars, gantt, runs), wide=True)


class _Rows:
    """Where each node and each of its GPUs is: few nodes are drawn high, many low."""

    def __init__(self, gantt: Gantt) -> None:
        lines = sum(gantt.gpus)
        self._names = gantt.nodes
        self._line = min(6.0, max(1.5, 640.0 / max(1, lines)))
        self._line = max(self._line, 10.0 / max(1, max(gantt.gpus)))
        self._tops: list[float] = []
        self._heights = [self._line * gpus for gpus in gantt.gpus]
        top = TOP
        for height in self._heights:
            self._tops.append(top)
            top += height + GAP
        self.bottom = top

    def top(self, bar: GanttBar) -> float:
        return self._tops[bar.node] + self._line * bar.gpu

    @property
    def line(self) -> float:
        return self._line

    def ground(self) -> Html:
        """An empty bar for each node, and its name."""
        parts = []
        width = WIDTH - LEFT - RIGHT
        for name, top, height in zip(self._names, self._tops, self._heights, strict=True):
            short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
            parts.append(
                tag("rect", x=LEFT, y=top, width=width, height=height, class_="empty")
                + tag("text", text(short), x=LEFT - 8, y=top + height / 2 + 3.5, class_="node end")
            )
        return join(Html(part) for part in parts)


def _time_marks(x: ChartAxis, bottom: float) -> Html:
    width = WIDTH - LEFT - RIGHT
    parts = []
    for value, label in x.ticks:
        at = LEFT + width * x.part(value)
        parts.append(
            tag("path", d=f"M{number(at)} {number(TOP)}V{number(bottom)}", class_="grid-line")
        )
        parts.append(tag("text", text(label), x=at, y=bottom + 16, class_="tick middle"))
    middle = LEFT + width / 2
    parts.append(tag("text", text(x.title), x=middle, y=bottom + 33, class_="axis-title middle"))
    return join(parts)


class _Block:
    """Neighbouring GPUs of a node with the same holder for the same time."""

    __slots__ = ("bar", "gpus")

    def __init__(self, bar: GanttBar) -> None:
        self.bar = bar
        self.gpus = 1


def _merged(bars: Iterable[GanttBar]) -> list[_Block]:
    """Bars come by node and GPU; a gang that has a whole node is one rectangle, not eight."""
    blocks: list[_Block] = []
    growing: dict[tuple[int, int, int, int], _Block] = {}
    for bar in bars:
        key = (bar.node, bar.begin, bar.columns, bar.team)
        block = growing.get(key)
        if block is not None and block.bar.gpu + block.gpus == bar.gpu:
            block.gpus += 1
        else:
            block = growing[key] = _Block(bar)
            blocks.append(block)
    return blocks


def _widest(blocks: list[_Block], most: int) -> tuple[list[_Block], int]:
    """As many as a page can carry, and how many narrower ones were left out."""
    if len(blocks) <= most:
        return blocks, 0
    kept = sorted(range(len(blocks)), key=lambda n: (-blocks[n].bar.columns, n))[:most]
    return [blocks[n] for n in sorted(kept)], len(blocks) - most


def _column_width(run: PageRun, runs: PageRuns) -> float:
    part = run.length_ms / max(1, runs.longest_ms)
    return (WIDTH - LEFT - RIGHT) * part / max(1, run.series.gantt.columns)


def _styles(gantt: Gantt, runs: PageRuns) -> list[str]:
    return [runs.style(team) for team in gantt.teams]


def _paths(
    blocks: Iterable[_Block], rows: _Rows, styles: list[str], column: float
) -> Iterable[Html]:
    """One path for each colour: a rectangle is then a few bytes."""
    drawn: dict[str, list[str]] = {}
    for block in blocks:
        bar = block.bar
        width, height = number(bar.columns * column), number(rows.line * block.gpus)
        corner = f"M{number(LEFT + bar.begin * column)} {number(rows.top(bar))}"
        drawn.setdefault(styles[bar.team], []).append(f"{corner}h{width}v{height}h-{width}z")
    for style in sorted(drawn):
        yield tag("path", d="".join(drawn[style]), class_=f"held {style}")


def _legend(blocks: Iterable[_Block], gantt: Gantt, runs: PageRuns) -> Html:
    shown = {gantt.teams[block.bar.team] for block in blocks}
    entries = [(team, style) for team, style in runs.style_of_team.items() if team in shown]
    if shown - set(runs.style_of_team):
        entries.append(("other teams", OTHERS))
    return legend([*entries, ("free", "empty")])


def _note(run: PageRun, dropped: int) -> str:
    gantt = run.series.gantt
    parts = ["A row is a node, a line in it is a GPU, and the colour is the team that holds it."]
    if gantt.nodes_in_fleet > len(gantt.nodes):
        parts.append(
            f"{len(gantt.nodes)} of {gantt.nodes_in_fleet:,} nodes are drawn, evenly chosen."
        )
    column_ms = run.length_ms / max(1, gantt.columns)
    parts.append(f"Each {write_time(column_ms)} shows the longest holder in it.")
    left_out = gantt.stays_left_out + dropped
    if left_out:
        parts.append(f"{left_out:,} short stays are left out.")
    return " ".join(parts)


def _describe(run: PageRun) -> str:
    gantt = run.series.gantt
    held = sum(bar.columns for bar in gantt.bars)
    cells = gantt.columns * sum(gantt.gpus)
    return (
        f"{len(gantt.nodes)} nodes over {write_time(run.length_ms)}; "
        f"their GPUs are held for about {100 * held / max(1, cells):.0f} % of the time."
    )

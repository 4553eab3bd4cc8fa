"""The Gantt chart: a row for each node, with a lane for each GPU, coloured by team."""

from __future__ import annotations

from collections.abc import Iterable

from bursar.model.units import counted
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
    """The charts of all runs below each other, with one time axis."""
    charts = [_chart(run, runs) for run in runs.each if run.series.gantt.nodes]
    if not charts:
        return NOTHING
    return tag("section", tag("h2", text("Nodes")), join(charts))


def _chart(run: PageRun, runs: PageRuns) -> Html:
    gantt = run.series.gantt
    rows = _Rows(gantt)
    x = time_axis(runs.longest_ms, 12)
    bars, dropped = _widest(_merged(gantt.bars), MOST_RECTANGLES // len(runs.each))
    title = "GPUs by team" if runs.is_single else f"GPUs by team: {run.name}"
    plot = tag(
        "svg",
        tag("title", text(title), id=f"gantt-{run.number}-t"),
        tag("desc", text(_describe(run)), id=f"gantt-{run.number}-d"),
        rows.background(),
        _time_marks(x, rows.bottom),
        join(_paths(bars, rows, _styles(gantt, runs), _column_width(run, runs))),
        viewBox=f"0 0 {WIDTH:g} {rows.bottom + FOOT:g}",
        role="img",
        aria_labelledby=f"gantt-{run.number}-t gantt-{run.number}-d",
        class_="plot",
    )
    return figure(title, _note(run, dropped), plot, _legend(bars, gantt, runs), wide=True)


class _Rows:
    """The positions of nodes and their GPUs; the more GPUs, the thinner the lanes."""

    def __init__(self, gantt: Gantt) -> None:
        self._names = gantt.nodes
        lane_height = min(6.0, max(1.5, 640.0 / max(1, sum(gantt.gpus))))
        self.lane_height = max(lane_height, 10.0 / max(1, max(gantt.gpus)))
        self._tops: list[float] = []
        self._heights = [self.lane_height * gpus for gpus in gantt.gpus]
        top = TOP
        for height in self._heights:
            self._tops.append(top)
            top += height + GAP
        self.bottom = top

    def top(self, bar: GanttBar) -> float:
        return self._tops[bar.node] + self.lane_height * bar.gpu

    def background(self) -> Html:
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
        at = LEFT + width * x.fraction(value)
        parts.append(
            tag("path", d=f"M{number(at)} {number(TOP)}V{number(bottom)}", class_="grid-line")
        )
        parts.append(tag("text", text(label), x=at, y=bottom + 16, class_="tick middle"))
    middle = LEFT + width / 2
    parts.append(tag("text", text(x.title), x=middle, y=bottom + 33, class_="axis-title middle"))
    return join(parts)


class _Block:
    """Adjacent GPUs of a node that one team held for the same time."""

    __slots__ = ("bar", "gpus")

    def __init__(self, bar: GanttBar) -> None:
        self.bar = bar
        self.gpus = 1


def _merged(bars: Iterable[GanttBar]) -> list[_Block]:
    """Merges bars, which are in order of node and GPU: a whole node is then one rectangle."""
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


def _widest(blocks: list[_Block], limit: int) -> tuple[list[_Block], int]:
    """The widest blocks up to a limit, and the number of omitted ones."""
    if len(blocks) <= limit:
        return blocks, 0
    widest = sorted(range(len(blocks)), key=lambda n: (-blocks[n].bar.columns, n))[:limit]
    return [blocks[n] for n in sorted(widest)], len(blocks) - limit


def _column_width(run: PageRun, runs: PageRuns) -> float:
    fraction = run.length_ms / max(1, runs.longest_ms)
    return (WIDTH - LEFT - RIGHT) * fraction / max(1, run.series.gantt.columns)


def _styles(gantt: Gantt, runs: PageRuns) -> list[str]:
    return [runs.style(team) for team in gantt.teams]


def _paths(
    blocks: Iterable[_Block], rows: _Rows, styles: list[str], column: float
) -> Iterable[Html]:
    """One path for each colour, to keep the page small."""
    drawn: dict[str, list[str]] = {}
    for block in blocks:
        bar = block.bar
        width, height = number(bar.columns * column), number(rows.lane_height * block.gpus)
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
    parts = ["A row is a node, a lane in it is a GPU, and the colour is the team that holds it."]
    if gantt.nodes_in_fleet > len(gantt.nodes):
        parts.append(
            f"{len(gantt.nodes)} of {gantt.nodes_in_fleet:,} nodes are shown, evenly chosen."
        )
    column_ms = run.length_ms / max(1, gantt.columns)
    parts.append(f"Each {write_time(column_ms)} shows the longest holder in it.")
    omitted = gantt.stays_left_out + dropped
    if omitted:
        parts.append(f"{counted(omitted, 'short stay')} omitted.")
    return " ".join(parts)


def _describe(run: PageRun) -> str:
    gantt = run.series.gantt
    held = sum(bar.columns for bar in gantt.bars)
    cells = gantt.columns * sum(gantt.gpus)
    return (
        f"{counted(len(gantt.nodes), 'node')} over {write_time(run.length_ms)}; "
        f"their GPUs are held for about {100 * held / max(1, cells):.0f} % of the time."
    )

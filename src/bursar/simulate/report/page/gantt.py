"""The Gantt chart: a row for each node, with a lane for each GPU, coloured by team."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from bursar.model.units import counted
from bursar.page_templates import coordinate
from bursar.simulate.metrics.series import GanttBar
from bursar.simulate.report.metric_rows import write_time
from bursar.simulate.report.page.axes import ChartAxis, time_axis
from bursar.simulate.report.page.plot import LegendEntries
from bursar.simulate.report.page.runs import OTHERS, PageRun, PageRuns

TOP = 6.0
GAP = 3.0
LEFT, WIDTH = 110.0, 1016.0
LONGEST_NAME = 15
MOST_RECTANGLES = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GanttChart:
    """The nodes of a run: a row has a name, a top and a height.

    ``paths`` has a style and the rectangles of that colour, as one path to keep the page small.
    """

    key: str
    title: str
    note: str
    description: str
    x_axis: ChartAxis
    rows: Sequence[tuple[str, float, float]]
    paths: Sequence[tuple[str, str]]
    legend: LegendEntries
    left: float = LEFT
    top: float = TOP
    width: float = WIDTH
    bottom: float


@dataclass(slots=True)
class _Block:
    """Adjacent GPUs of a node that one team held for the same time."""

    bar: GanttBar
    gpus: int = 1


def gantt_charts(runs: PageRuns) -> list[GanttChart]:
    """The charts of all runs below each other, with one time axis."""
    return [_chart(run, runs) for run in runs.each if run.series.gantt.nodes]


def _chart(run: PageRun, runs: PageRuns) -> GanttChart:
    gantt = run.series.gantt
    blocks, dropped = _widest(_merged(gantt.bars), MOST_RECTANGLES // len(runs.each))
    column = WIDTH * run.length_ms / max(1, runs.longest_ms) / max(1, gantt.columns)
    # The more GPUs, the thinner the lanes.
    lane = min(6.0, max(1.5, 640.0 / max(1, sum(gantt.gpus))))
    lane = max(lane, 10.0 / max(1, max(gantt.gpus)))
    tops = list(accumulate((lane * gpus + GAP for gpus in gantt.gpus), initial=TOP))
    drawn: dict[str, list[str]] = {}
    for block in blocks:
        bar = block.bar
        left, top = LEFT + bar.begin * column, tops[bar.node] + lane * bar.gpu
        width, height = coordinate(bar.columns * column), coordinate(lane * block.gpus)
        rectangle = f"M{coordinate(left)} {coordinate(top)}h{width}v{height}h-{width}z"
        style = runs.style_of_team.get(gantt.teams[bar.team], OTHERS)
        drawn.setdefault(style, []).append(rectangle)
    return GanttChart(
        key=f"gantt-{run.number}",
        title=runs.title("GPUs by team", run),
        note=_note(run, dropped),
        description=_describe(run),
        x_axis=time_axis(runs.longest_ms, 12),
        rows=[
            (_shortened(name), top, lane * gpus)
            for name, top, gpus in zip(gantt.nodes, tops, gantt.gpus, strict=False)
        ],
        bottom=tops[-1],
        paths=[(style, "".join(drawn[style])) for style in sorted(drawn)],
        legend=_legend({gantt.teams[block.bar.team] for block in blocks}, runs),
    )


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


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


def _legend(shown: set[str], runs: PageRuns) -> LegendEntries:
    entries = [(team, style) for team, style in runs.style_of_team.items() if team in shown]
    others = [("other teams", OTHERS)] if shown - set(runs.style_of_team) else []
    return [*entries, *others, ("free", "empty")]


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

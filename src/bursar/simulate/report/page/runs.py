"""The runs of a page, with unique names, and one colour for each team in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.simulate.metrics.series import Series
from bursar.simulate.metrics.summary import Summary

OTHERS = "cx"
COLOURS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRun:
    """A run on the page. ``number`` is its index in the order of runs."""

    number: int
    name: str
    summary: Summary
    series: Series

    @property
    def length_ms(self) -> int:
        return self.series.ended_ms - self.series.began_ms

    @property
    def style(self) -> str:
        """The class of its colour; after the last, colours repeat."""
        return f"c{self.number % COLOURS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRuns:
    """All runs of a page, and the style of each team."""

    each: tuple[PageRun, ...]
    style_of_team: dict[str, str]

    @property
    def is_single(self) -> bool:
        return len(self.each) == 1

    @property
    def longest_ms(self) -> int:
        return max(run.length_ms for run in self.each)

    @property
    def legend(self) -> list[tuple[str, str]]:
        return [(run.name, run.style) for run in self.each]

    def title(self, subject: str, run: PageRun) -> str:
        """The title of a plot or table of one run."""
        return subject if self.is_single else f"{subject}: {run.name}"


def gather(summaries: Sequence[Summary], series: Sequence[Series]) -> PageRuns:
    """Gives runs unique names: a name that occurs twice gets a number."""
    runs: list[PageRun] = []
    for number, (summary, curves) in enumerate(zip(summaries, series, strict=True)):
        name = summary.name or "run"
        earlier = sum(other.summary.name == summary.name for other in runs)
        name = f"{name} ({earlier + 1})" if earlier else name
        runs.append(PageRun(number=number, name=name, summary=summary, series=curves))
    # Colours for the teams with the largest demand, earlier runs first; the others share a grey.
    teams = dict.fromkeys(team for run in runs for team in run.series.shares)
    styles = {team: f"c{index}" for index, team in enumerate(list(teams)[:COLOURS])}
    return PageRuns(each=tuple(runs), style_of_team=styles)

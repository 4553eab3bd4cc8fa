"""The HTML page: well formed, self-contained, escaped, and complete for any run."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError

from bursar.model.units import HOUR_MS
from bursar.page_templates import coordinate, environment
from bursar.simulate.demo.demo import demonstration
from bursar.simulate.metrics import RunMetrics
from bursar.simulate.report.page import page_html
from bursar.simulate.report.page.axes import percent_axis, time_axis, value_axis, wait_axis
from bursar.simulate.report.page.curve import Box, Curve, curve_of, step_path
from tests.simulate.metrics.small_runs import measured, noted, submitted
from tests.support import fleet_of, job, pool, queue, tenant

EVIL = "<script>alert('x')</script>\"&'"
VOID = {"meta", "br", "hr"}


class Reader(HTMLParser):
    """Rejects elements that are not closed in order, and collects elements and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        assert len(attributes) == len(dict(attributes)), f"{name} has an attribute twice"
        self.seen.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, words: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(words)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for one, attributes in self.seen if one == name]


def page_of(*runs: RunMetrics, names: tuple[str, ...] = ("one", "two", "three")) -> str:
    summaries = [run.summary(name) for run, name in zip(runs, names, strict=False)]
    return page_html(summaries, [run.series() for run in runs])


@pytest.fixture(scope="module")
def day() -> RunMetrics:
    return noted(demonstration(7))


def some_runs(day: RunMetrics) -> dict[str, str]:
    one_job = measured(submitted((0, job("a", 8, hours=1))))
    no_teams = measured(
        submitted((0, job("a", 1, queue="all", hours=1))), tenants=(queue("all", None),)
    )
    cpu_only = measured(
        submitted((0, job("a", 0, hours=1, cpu=1))), fleet=fleet_of(pool("cpu", model=None, gpus=0))
    )
    stuck = measured(submitted((0, job("never", 64, hours=1))))
    return {
        "a day": page_of(day),
        "a run without jobs": page_of(measured([])),
        "one job": page_of(one_job),
        "one queue and no teams": page_of(no_teams),
        "a fleet without GPUs": page_of(cpu_only),
        "a job that never starts": page_of(stuck),
        "three runs": page_of(day, one_job, day),
        "a run and an empty one": page_of(day, measured([])),
    }


@pytest.fixture(scope="module")
def pages(day: RunMetrics) -> dict[str, str]:
    return some_runs(day)


RUNS = (
    "a day",
    "a run without jobs",
    "one job",
    "one queue and no teams",
    "a fleet without GPUs",
    "a job that never starts",
    "three runs",
    "a run and an empty one",
)


@pytest.mark.parametrize("run", RUNS)
def test_a_page_is_well_formed_and_fetches_nothing(pages: dict[str, str], run: str) -> None:
    page = pages[run]
    read = Reader(page)
    assert page.startswith("<!doctype html>")
    assert "://" not in page and "url(" not in page and "@import" not in page
    attributes = {key for _, pairs in read.seen for key in pairs}
    assert not attributes & {"src", "href", "xlink:href", "onclick", "onload", "style"}
    assert not re.search(r'="[^"]*\b(?:nan|inf)\b', page)
    assert len(page.encode()) < 1_500_000


@pytest.mark.parametrize("run", RUNS)
def test_every_plot_has_a_title_a_description_and_ids_that_are_unique(
    pages: dict[str, str], run: str
) -> None:
    read = Reader(pages[run])
    ids = [pairs["id"] for _, pairs in read.seen if "id" in pairs]
    assert len(ids) == len(set(ids))
    plots = read.all("svg")
    assert plots
    for plot in plots:
        named = (plot["aria-labelledby"] or "").split()
        assert plot["role"] == "img" and len(named) == 2 and set(named) <= set(ids)
    assert len(read.all("title")) == len(plots) + 1
    assert len(read.all("desc")) == len(plots)


def test_every_plot_over_time_has_its_numbers(pages: dict[str, str]) -> None:
    read = Reader(pages["a day"])
    assert len(read.all("details")) == sum("data-x" in plot for plot in read.all("svg"))


def test_names_are_escaped() -> None:
    tenants = (tenant("acme"), queue(EVIL, "acme"))
    fleet = fleet_of(pool(f"p{EVIL}", nodes=1))
    runs = measured(submitted((0, job("a", 8, queue=EVIL, hours=1))), tenants=tenants, fleet=fleet)
    page = page_of(runs, runs, names=(EVIL, f"second {EVIL}"))
    read = Reader(page)
    assert len(read.all("script")) == 1
    assert page.count("<script") == 1
    assert "".join(read.words).count(EVIL) > 4, "the name is shown as it is"


def test_only_our_own_script_may_run(pages: dict[str, str]) -> None:
    policies = [
        pairs["content"] for pairs in Reader(pages["a day"]).all("meta") if "http-equiv" in pairs
    ]
    assert len(policies) == 1 and policies[0] is not None
    assert "default-src 'none'" in policies[0]
    assert "script-src 'sha256-" in policies[0]


def test_several_runs_show_differences_to_the_first(day: RunMetrics) -> None:
    first, second = day.summary("first"), day.summary("second")
    slower = replace(second, makespan_ms=2 * second.makespan_ms)
    page = page_html([first, slower], [day.series(), day.series()])
    words = Reader(page).words
    assert "+100 %" in words
    assert "Cost over time: second" in words


def test_two_runs_of_one_name_get_numbers(day: RunMetrics) -> None:
    words = Reader(page_of(day, day, names=("same", "same"))).words
    assert {"same", "same (2)"} <= set(words)


def test_the_page_states_how_many_nodes_of_a_large_fleet_are_shown() -> None:
    fleet = fleet_of(pool("a100", nodes=150))
    jobs = [(0, job(f"job-{n:03}", 8, hours=1)) for n in range(150)]
    page = page_of(measured(submitted(*jobs), fleet=fleet))
    assert "60 of 150 nodes are shown" in page


def test_a_page_has_dark_colours_and_needs_no_javascript(pages: dict[str, str]) -> None:
    page = pages["a day"]
    assert "prefers-color-scheme:dark" in page
    before_script = page.split("<script>")[0]
    assert before_script.count("<svg") == page.count("<svg")


def test_a_page_without_runs_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        page_html([], [])


# -- templates, axes and curves -------------------------------------------------------------------


def test_templates_escape_text_and_attributes() -> None:
    template = environment().from_string(
        '<p class="{{ style }}" data-at="{{ at|coordinate }}">{{ words }}</p>'
    )
    made = template.render(words="a < b\x00", style='x"y', at=1.25)
    assert made == '<p class="x&#34;y" data-at="1.2">a &lt; b </p>'


def test_a_template_rejects_a_name_without_a_value() -> None:
    with pytest.raises(UndefinedError, match="'titel' is undefined"):
        environment().from_string("<p>{{ titel }}</p>").render(title="one")


def test_coordinates_have_at_most_one_decimal() -> None:
    assert [coordinate(value) for value in (0.0, 12.0, 12.04, 12.34)] == ["0", "12", "12", "12.3"]


@pytest.mark.parametrize(
    ("length_ms", "labels"),
    [
        (4 * HOUR_MS, ["0", "30 min", "60 min"]),
        (24 * HOUR_MS, ["0", "3 h", "6 h"]),
        (21 * 24 * HOUR_MS, ["0", "5 d", "10 d"]),
    ],
)
def test_time_ticks_are_at_common_units(length_ms: int, labels: list[str]) -> None:
    assert [label for _, label in time_axis(length_ms).ticks][:3] == labels


@pytest.mark.parametrize("highest", [0, 0.3, 1, 7, 42, 80, 999, 12345])
def test_value_ticks_are_round_numbers_up_to_the_highest(highest: float) -> None:
    axis = value_axis(highest, "jobs", "number", str)
    assert axis.high >= highest
    assert 2 <= len(axis.ticks) <= 6
    assert all(math.isfinite(value) for value, _ in axis.ticks)


def test_an_axis_without_values_ends_at_one() -> None:
    assert [label for _, label in value_axis(0, "jobs", "number", str).ticks] == ["0.0", "1.0"]


@pytest.mark.parametrize(("highest", "last"), [(0.1, "20 %"), (0.3, "50 %"), (0.51, "100 %")])
def test_small_shares_have_a_larger_scale(highest: float, last: str) -> None:
    assert percent_axis("of GPU time", highest).ticks[-1][1] == last


def test_zero_has_a_position_on_the_logarithmic_axis() -> None:
    axis = wait_axis(HOUR_MS)
    assert (axis.fraction(0), axis.fraction(HOUR_MS)) == (0, 1)


def test_a_value_lasts_until_the_next_step() -> None:
    x, y = replace(time_axis(1000), high=100.0), value_axis(1, "", "number", str)
    box = Box(x_axis=x, y_axis=y, left=0, top=0, width=100, height=10)
    curve = Curve((0, 50, 100), (0.0, 1.0))
    assert step_path(curve, box) == "M0 10H50V0H100"
    assert (curve.at(49), curve.at(50), curve.at(1000)) == (0.0, 1.0, 1.0)


def test_a_curve_with_too_many_steps_keeps_its_mean(day: RunMetrics) -> None:
    series = day.series()
    curve = curve_of(series, series.gpus_held)
    assert len(curve.values) <= 360 < len(series)
    spans = [b - a for a, b in zip(curve.edges, curve.edges[1:], strict=False)]
    total = sum(value * span for value, span in zip(curve.values, spans, strict=True))
    assert total * 1000 == pytest.approx(day.summary().gpu_time.allocated)

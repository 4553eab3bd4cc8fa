"""Comparisons of runs as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bursar.model.units import HOUR_MS, SECOND_MS
from bursar.simulate.metrics import Summary, compare_json, compare_table
from bursar.simulate.metrics.quantiles import Distribution
from bursar.simulate.metrics.summary import Losses, Times
from bursar.simulate.report.comparison import change_from, compare, write_change
from bursar.simulate.report.metric_rows import write_dollars, write_real_time, write_time
from tests.simulate.metrics.small_runs import measured, submitted
from tests.support import job


@pytest.fixture
def slow() -> Summary:
    """Two jobs of an hour, one after the other."""
    jobs = submitted((0, job("a", 8, hours=1)), (0, job("b", 8, hours=1)))
    return replace(measured(jobs).summary("slow"), losses=Losses(preemptions=2))


@pytest.fixture
def quick(slow: Summary) -> Summary:
    spread = Distribution(count=2, mean=HOUR_MS * 3 / 4, p50=HOUR_MS, p90=HOUR_MS, p99=HOUR_MS)
    return replace(slow, name="quick", times=Times(jct_ms=spread, wait_ms=spread), losses=Losses())


def lines_of(table: str) -> dict[str, str]:
    return {line[:27].strip(): line[27:].strip() for line in table.splitlines() if line}


def test_the_best_is_marked_and_percent_is_the_difference_to_the_first(
    slow: Summary, quick: Summary
) -> None:
    lines = lines_of(compare_table([slow, quick]))
    assert lines["JCT mean"].split() == ["1.50", "h", "45.0", "min", "*", "-50", "%"]
    assert lines["preemptions"].split() == ["2", "0", "*", "-100", "%"]


def test_equal_values_have_no_best(slow: Summary, quick: Summary) -> None:
    assert lines_of(compare_table([slow, quick]))["makespan"].split() == [
        "2.00",
        "h",
        "2.00",
        "h",
        "0",
        "%",
    ]


def test_columns_are_aligned(slow: Summary, quick: Summary) -> None:
    lines = compare_table(
        [slow, quick, replace(quick, name="a very long name indeed")]
    ).splitlines()
    rows = [line for line in lines[1:] if line and not line.startswith("*")]
    ends = {line.rstrip(" %*+-0123456789.").__len__() for line in rows if line.startswith("JCT p")}
    assert len(ends) == 1
    assert lines[0].split() == ["slow", "quick", "a", "very", "long", "name", "indeed"]


def test_one_run_has_no_marks_and_no_changes(slow: Summary) -> None:
    table = compare_table([slow])
    assert "%" not in lines_of(table)["JCT mean"]
    assert "best run" not in table
    assert compare_table([]) == ""


def test_a_run_without_finished_jobs_has_no_waits(slow: Summary) -> None:
    empty = measured([]).summary("empty")
    lines = lines_of(compare_table([slow, empty]))
    assert lines["JCT mean"].split() == ["1.50", "h", "-"]


def test_a_metric_without_values_has_no_row(slow: Summary) -> None:
    assert "deadlines kept" not in compare_table([slow])
    due = measured(submitted((0, job("a", 8, hours=1, deadline_ms=HOUR_MS)))).summary()
    assert lines_of(compare_table([due]))["deadlines kept"] == "100.0 %"


def test_json_contains_values_changes_and_best_runs(slow: Summary, quick: Summary) -> None:
    read = json.loads(json.dumps(compare_json([slow, quick]), allow_nan=False))
    assert read["runs"] == ["slow", "quick"]
    mean = next(one for one in read["measures"] if one["measure"] == "JCT mean")
    assert mean["values"] == [1.5 * HOUR_MS, 0.75 * HOUR_MS]
    assert mean["changes"] == [None, -0.5]
    assert (mean["best"], mean["better"]) == ([1], "less")
    assert read["summaries"][0]["times"]["jct_ms"]["mean"] == 1.5 * HOUR_MS


def test_every_label_occurs_once(slow: Summary) -> None:
    labels = [line.metric.label for line in compare([slow])]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize(
    ("first", "value", "expected"),
    [
        (2, 3, "+50 %"),
        (100, 101, "+1.0 %"),
        (3, 3, "0 %"),
        (0, 0, "0 %"),
        (0, 5, ""),
        (-2, -1, "+50 %"),
        (None, 1, ""),
        (1000, 1000.1, "0 %"),
    ],
)
def test_changes(first: float | None, value: float, expected: str) -> None:
    assert write_change(change_from(first, value)) == expected


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        (0, "0 s"),
        (500, "0.50 s"),
        (90 * SECOND_MS, "1.50 min"),
        (HOUR_MS, "1.00 h"),
        (30 * HOUR_MS, "30.0 h"),
        (72 * HOUR_MS, "3.00 d"),
    ],
)
def test_times_have_one_unit(duration_ms: float, expected: str) -> None:
    assert write_time(duration_ms) == expected


def test_money_and_real_time() -> None:
    assert write_dollars(1_234_560_000) == "$1,234.56"
    assert write_dollars(-12_345_678_900_000) == "-$12,345,679"
    assert (write_real_time(1_500), write_real_time(2_500_000)) == ("1.50 µs", "2.50 ms")

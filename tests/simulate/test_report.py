"""Numbers and words: what a run cost, how long people waited, and how it is told."""

from __future__ import annotations

import pytest

from bursar.model.event import JobSubmitted
from bursar.model.job import Checkpoint
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS
from bursar.simulate.demo import demonstration
from bursar.simulate.loop import Simulation
from bursar.simulate.moments import time_of_day
from bursar.simulate.report import Report, percentile
from bursar.simulate.report_text import Line, table, tell
from bursar.simulate.scenario import Delays, Scenario
from bursar.testing import fleet_of, job, pool, queue, tenant

OWNED = "a100-80gb/owned"


@pytest.fixture
def report() -> Report:
    """Eight GPUs at $1 an hour each; a borrower that is preempted, and the owner that preempts it."""
    saves = Checkpoint(interval_ms=30 * MINUTE_MS, restart_ms=6 * MINUTE_MS)
    specs = [
        (0, job("borrower", 8, queue="vision", hours=2, checkpoint=saves)),
        (HOUR_MS + 15 * MINUTE_MS, job("owner", 4, queue="product", hours=1)),
        (
            HOUR_MS + 15 * MINUTE_MS,
            job("after", 4, queue="product", hours=1, depends_on=("owner",)),
        ),
    ]
    scenario = Scenario(
        fleet=fleet_of(pool("a100", usd_per_node_hour=8.0)),
        tenants=(
            tenant("acme"),
            tenant("research", "acme"),
            queue("vision", "research", {OWNED: 4}),
            queue("product", "acme", {OWNED: 4}),
        ),
        events=[JobSubmitted(at_ms=at, job_id=s.name, spec=s, priority=0) for at, s in specs],
        delays=Delays(start_ms=0, stop_ms=0),
    )
    simulation = Simulation(scenario)
    report = Report(simulation.state)
    for step in simulation.steps():
        report.note(step)
    return report


def test_waits_costs_and_losses_add_up(report: Report) -> None:
    research, product = report.team("vision"), report.team("product")
    assert [team.team for team in report.teams()] == ["product", "research"]
    assert (research.jobs, research.succeeded, research.preempted) == (1, 1, 1)
    # Ran 1 h 15 min, lost 15 min and a restart of 6 min, waited for both others, then 1 h 6 min.
    assert research.waits_ms == [2 * HOUR_MS]
    assert research.gpu_hours == pytest.approx(8 * (1.25 + 1.1))
    assert research.cost_micro_usd == pytest.approx(8_000_000 * (1.25 + 1.1), abs=2)
    assert research.lost_micro_usd == 8_000_000 * 21 // 60
    assert product.waits_ms == [0, 0], "a job that depends on others waits from their end on"
    assert product.gpu_hours == pytest.approx(8)
    assert report.unfinished() == []


def test_utilisation_is_what_was_held_of_all(report: Report) -> None:
    assert [percent for _, percent in report.utilisation()] == [100, 62, 50, 87, 100]
    assert report.mean_utilisation_percent == pytest.approx(100 * 26.8 / (8 * 4.35))


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, 0), ([5], 90, 5), ([1, 2, 3, 4], 50, 2), (list(range(1, 11)), 90, 9)],
)
def test_a_percentile_is_a_value_that_occurred(
    values: list[int], percent: int, expected: int
) -> None:
    assert percentile(values, percent) == expected


def test_columns_are_aligned() -> None:
    assert table([["team", "jobs"], ["a", "100"]]) == ["  team  jobs", "  a      100"]


def test_a_time_on_a_later_day_says_so() -> None:
    assert time_of_day(9 * HOUR_MS + 5 * MINUTE_MS) == "09:05"
    assert time_of_day(DAY_MS + HOUR_MS) == "01:00+1"


def lines_of(seed: int, *, verbose: bool) -> list[Line]:
    return list(tell(Simulation(demonstration(seed)), verbose=verbose))


@pytest.mark.parametrize("seed", range(6))
def test_the_short_telling_fits_on_two_screens_for_any_seed(seed: int) -> None:
    lines = lines_of(seed, verbose=False)
    assert len(lines) < 100
    assert max(len(line.text) for line in lines) <= 120


def test_the_long_telling_leaves_nothing_out() -> None:
    short, long = ([line.text for line in lines_of(7, verbose=v)] for v in (False, True))
    assert "quieter moments" in "".join(short)
    assert "quieter moments" not in "".join(long)
    assert len(long) > len(short)

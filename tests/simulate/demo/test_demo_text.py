"""The text and the metrics of the demonstration."""

from __future__ import annotations

import pytest

from bursar.model.event import JobSubmitted
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS
from bursar.simulate.demo.demo import demonstration
from bursar.simulate.demo.demo_text import TextLine, demo_text, table, utilisation_rows
from bursar.simulate.demo.timeline_entry import time_of_day
from bursar.simulate.metrics import RunMetrics
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from tests.support import fleet_of, job, pool, queue, tenant

OWNED = "a100-80gb/owned"


@pytest.fixture
def metrics() -> RunMetrics:
    """Eight GPUs at $1 an hour each; a borrower that is preempted, and the owner that preempts it."""
    saves = CheckpointPolicy(interval_ms=30 * MINUTE_MS, restart_ms=6 * MINUTE_MS)
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
    metrics = RunMetrics(simulation.state)
    for step in simulation.steps():
        metrics.note(step)
    return metrics


def test_waits_costs_and_losses_add_up(metrics: RunMetrics) -> None:
    summary = metrics.summary()
    product, research = sorted(summary.teams, key=lambda one: one.team)
    assert (product.team, research.team) == ("product", "research")
    assert (research.outcomes.submitted, research.outcomes.succeeded) == (1, 1)
    assert research.preemptions == 1
    # Ran 1 h 15 min, lost 15 min and a restart of 6 min, waited for both others, then 1 h 6 min.
    assert research.times.wait_ms.p50 == research.times.wait_ms.p90 == 2 * HOUR_MS
    assert research.gpu_milli_ms == pytest.approx(8 * (1.25 + 1.1) * 1_000 * HOUR_MS)
    assert research.cost_micro_usd == pytest.approx(8_000_000 * (1.25 + 1.1), abs=2)
    assert research.lost_micro_usd == 8_000_000 * 15 // 60
    assert summary.losses.restart_micro_usd == 8_000_000 * 6 // 60
    assert product.times.wait_ms.p90 == 0, "a job that depends on others waits from their end on"
    assert product.gpu_milli_ms == pytest.approx(8 * 1_000 * HOUR_MS)
    assert summary.outcomes.unfinished == 0


def test_utilisation_is_held_gpus_over_all_gpus(metrics: RunMetrics) -> None:
    summary = metrics.summary()
    assert summary.use.allocated == pytest.approx(26.8 / (8 * 4.35))
    lines = [line.text for line in utilisation_rows(summary, metrics.series())]
    assert lines[2:] == ["  from  00:00  02:00  04:00", "  %        81     68    100"]


def test_columns_are_aligned() -> None:
    lines = [line.text for line in table([["team", "jobs"], ["a", "100"]])]
    assert lines == ["  team  jobs", "  a      100"]


def test_a_time_on_a_later_day_has_the_number_of_days() -> None:
    assert time_of_day(9 * HOUR_MS + 5 * MINUTE_MS) == "09:05"
    assert time_of_day(DAY_MS + HOUR_MS) == "01:00+1"


def lines_of(seed: int, *, verbose: bool) -> list[TextLine]:
    return list(demo_text(Simulation(demonstration(seed)), verbose=verbose))


@pytest.mark.parametrize("seed", range(6))
def test_the_short_text_fits_on_two_screens_for_any_seed(seed: int) -> None:
    lines = lines_of(seed, verbose=False)
    assert len(lines) < 100
    assert max(len(line.text) for line in lines) <= 120


def test_the_verbose_text_omits_nothing() -> None:
    short, long = ([line.text for line in lines_of(7, verbose=v)] for v in (False, True))
    assert "minor entries omitted" in "".join(short)
    assert "minor entries omitted" not in "".join(long)
    assert len(long) > len(short)

"""How often to save: the published figures of Young's and Daly's formulas."""

from __future__ import annotations

import math

import pytest

from bursar.model.errors import UserError
from bursar.model.jobs.checkpoint_formulas import (
    InterruptionHazard,
    Interruptions,
    advise_interval,
    daly_interval,
    expected_run_ms,
    expected_wall_seconds,
    waste,
    young_interval,
)
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.units import HOUR_MS

HOUR = 3_600


@pytest.mark.parametrize(
    ("save", "between", "minutes"),
    [(300, 24 * HOUR, 116.7), (300, 6 * HOUR, 56.7), (300, 15 * 60, 9.14)],
)
def test_daly_gives_the_published_figures(save: int, between: int, minutes: float) -> None:
    assert daly_interval(save, between) / 60 == pytest.approx(minutes, rel=1e-3)


@pytest.mark.parametrize(
    ("save", "between_h", "interval", "lost"),
    [(60, 3, 1_099, 0.13), (120, 8, 2_550, 0.10), (300, 24, 7_001, 0.087)],
)
def test_advice_for_usual_jobs(save: int, between_h: int, interval: float, lost: float) -> None:
    failures = Interruptions(between_failures_seconds=between_h * HOUR, restart_seconds=300)
    advice = advise_interval(save, failures)
    assert advice.interval_seconds == pytest.approx(interval, abs=1)
    assert advice.waste == pytest.approx(lost, abs=0.006)


def test_youngs_formula_is_the_first_order_approximation() -> None:
    assert young_interval(60, 3 * HOUR) == pytest.approx(1_138, abs=1)
    assert daly_interval(60, 3 * HOUR) < young_interval(60, 3 * HOUR)


def test_a_save_longer_than_twice_the_time_between_failures_happens_once_per_failure() -> None:
    assert daly_interval(200, 100) == 100


def test_the_advised_interval_wastes_less_than_others() -> None:
    failures = Interruptions(between_failures_seconds=4 * HOUR, restart_seconds=300)
    best = advise_interval(120, failures).interval_seconds

    def wall(interval: float) -> float:
        return expected_wall_seconds(72 * HOUR, interval, 120, failures)

    assert wall(best) < min(wall(best / 2), wall(best * 2))
    assert wall(best) == pytest.approx(72 * HOUR * (1 + waste(best, 120, failures)), rel=0.03)


def test_an_interval_is_never_shorter_than_an_upload() -> None:
    failures = Interruptions(between_failures_seconds=HOUR)
    assert advise_interval(1, failures, upload_seconds=900).interval_seconds == 900


@pytest.mark.parametrize("save_ms", [1, 999, 60_000, 600_000, 7_200_000])
@pytest.mark.parametrize("between_ms", [1_000, 60_000, 3_600_000, 90_000_000, 10**12])
def test_the_formulas_match_the_papers_in_every_unit(save_ms: int, between_ms: int) -> None:
    young = math.sqrt(2.0 * save_ms * between_ms)
    part = save_ms / (2.0 * between_ms)
    daly = young * (1.0 + math.sqrt(part) / 3.0 + part / 9.0) - save_ms
    daly = float(between_ms) if save_ms >= 2 * between_ms else daly
    assert young_interval(save_ms, between_ms) == pytest.approx(young, rel=1e-12)
    assert daly_interval(save_ms, between_ms) == pytest.approx(daly, rel=1e-12)
    in_seconds = daly_interval(save_ms / 1_000, between_ms / 1_000)
    assert in_seconds * 1_000 == pytest.approx(daly, rel=1e-9)


@pytest.mark.parametrize("work_ms", [60_000, HOUR_MS, 72 * HOUR_MS])
@pytest.mark.parametrize("interval_ms", [None, 600_000, 5 * HOUR_MS])
@pytest.mark.parametrize("rate", [0, 1_000, 50_000])
def test_an_interrupted_run_takes_the_time_of_dalys_formula(
    work_ms: int, interval_ms: int | None, rate: int
) -> None:
    saving = CheckpointPolicy(interval_ms=interval_ms, restart_ms=300_000)
    hazard = InterruptionHazard(per_million_hours=rate, nodes=4)
    found = expected_run_ms(work_ms, saving, hazard)
    if not rate:
        assert found == work_ms
        return
    between = 10**6 * HOUR_MS / (4 * rate)
    stretch = min(work_ms, interval_ms or work_ms)
    wall = between * math.exp(300_000 / between) * math.expm1(stretch / between) * work_ms / stretch
    assert found == pytest.approx(wall, rel=1e-6, abs=1)


def test_a_save_time_of_zero_is_rejected() -> None:
    with pytest.raises(UserError, match="above 0 s"):
        daly_interval(0, 100)

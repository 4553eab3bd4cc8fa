"""How often to save: the published figures of Young's and Daly's formulas."""

from __future__ import annotations

import pytest

from bursar.core.deadline.checkpoint_interval import (
    Interruptions,
    advise_interval,
    daly_interval_seconds,
    expected_wall_seconds,
    hours_between_failures_from_hourly,
    hours_between_failures_from_monthly,
    hours_between_failures_seen,
    waste,
    young_interval_seconds,
)
from bursar.model.errors import UserError

HOUR = 3_600


@pytest.mark.parametrize(
    ("save", "between", "minutes"),
    [(300, 24 * HOUR, 116.7), (300, 6 * HOUR, 56.7), (300, 15 * 60, 9.14)],
)
def test_daly_gives_the_figures_of_his_paper(save: int, between: int, minutes: float) -> None:
    assert daly_interval_seconds(save, between) / 60 == pytest.approx(minutes, rel=1e-3)


@pytest.mark.parametrize(
    ("save", "between_h", "interval", "lost"),
    [(60, 3, 1_099, 0.13), (120, 8, 2_550, 0.10), (300, 24, 7_001, 0.087)],
)
def test_advice_for_usual_jobs(save: int, between_h: int, interval: float, lost: float) -> None:
    failures = Interruptions(between_failures_seconds=between_h * HOUR, restart_seconds=300)
    advice = advise_interval(save, failures)
    assert advice.interval_seconds == pytest.approx(interval, abs=1)
    assert advice.waste == pytest.approx(lost, abs=0.006)


def test_young_is_the_first_order() -> None:
    assert young_interval_seconds(60, 3 * HOUR) == pytest.approx(1_138, abs=1)
    assert daly_interval_seconds(60, 3 * HOUR) < young_interval_seconds(60, 3 * HOUR)


def test_a_save_longer_than_two_failures_is_made_once_for_each() -> None:
    assert daly_interval_seconds(200, 100) == 100


def test_the_advised_interval_wastes_less_than_others() -> None:
    failures = Interruptions(between_failures_seconds=4 * HOUR, restart_seconds=300)
    best = advise_interval(120, failures).interval_seconds

    def wall(interval: float) -> float:
        return expected_wall_seconds(72 * HOUR, interval, 120, failures)

    assert wall(best) < min(wall(best / 2), wall(best * 2))
    assert wall(best) == pytest.approx(72 * HOUR * (1 + waste(best, 120, failures)), rel=0.03)


def test_a_gang_fails_as_often_as_all_its_nodes() -> None:
    one = Interruptions(between_failures_seconds=80 * HOUR, restart_seconds=60)
    assert one.of_gang(8).between_failures_seconds == 10 * HOUR
    with pytest.raises(UserError):
        one.of_gang(0)


def test_an_interval_is_never_shorter_than_an_upload() -> None:
    failures = Interruptions(between_failures_seconds=HOUR)
    assert advise_interval(1, failures, upload_seconds=900).interval_seconds == 900


def test_rates_of_providers_become_hours() -> None:
    assert hours_between_failures_from_hourly(0.10) == pytest.approx(9.5, abs=0.05)
    assert hours_between_failures_from_monthly(0.10) == pytest.approx(6_900, rel=0.01)
    assert hours_between_failures_from_monthly(0.20) == pytest.approx(3_270, rel=0.01)
    assert hours_between_failures_seen(76, 3) == 25.0


@pytest.mark.parametrize("part", [0.0, 1.0, -0.1])
def test_a_rate_that_is_no_part_is_refused(part: float) -> None:
    with pytest.raises(UserError, match="not a part"):
        hours_between_failures_from_hourly(part)


def test_times_of_nothing_are_refused() -> None:
    with pytest.raises(UserError, match="more than 0"):
        daly_interval_seconds(0, 100)

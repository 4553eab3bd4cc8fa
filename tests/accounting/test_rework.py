"""Interruptions: what they cost, with which odds, and how often to save."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.accounting.rework import (
    Hazard,
    daly_interval_ms,
    daly_wall_ms,
    learned_per_million_hours,
    lost_ms,
    per_million_hours_of_share,
    young_interval_ms,
)
from bursar.model.units import HOUR_MS, MINUTE_MS, SECOND_MS


@pytest.mark.parametrize(
    ("save_s", "between_h", "young_s", "daly_s"),
    [(60, 3, 1_138, 1_099), (120, 8, 2_629, 2_550), (300, 24, 7_200, 7_001)],
)
def test_how_often_to_save(save_s: int, between_h: int, young_s: int, daly_s: int) -> None:
    save_ms, between_ms = save_s * SECOND_MS, between_h * HOUR_MS
    assert round(young_interval_ms(save_ms, between_ms) / SECOND_MS) == young_s
    assert round(daly_interval_ms(save_ms, between_ms) / SECOND_MS) == daly_s


def test_where_saving_takes_longer_than_anything_lives() -> None:
    assert daly_interval_ms(5 * HOUR_MS, HOUR_MS) == HOUR_MS


def test_the_mean_wall_time_is_dalys() -> None:
    """A save of 60 s, an interruption every 3 h, 300 s to restart: 13 % more, by first order."""
    hazard = Hazard(
        per_million_hours=333_333, interval_ms=1_099 * SECOND_MS, restart_ms=300 * SECOND_MS
    )
    work_ms = 100 * HOUR_MS
    assert daly_wall_ms(hazard, work_ms, 60 * SECOND_MS) / work_ms == pytest.approx(1.14, abs=0.01)
    calm = replace(hazard, per_million_hours=0)
    assert daly_wall_ms(calm, work_ms, 60 * SECOND_MS) == work_ms + 327 * 60 * SECOND_MS


def test_provider_figures_as_rates() -> None:
    """Azure's 10 % an hour is one in 9.5 hours; AWS's 10 % a month one in 6,900."""
    assert round(1_000_000 / per_million_hours_of_share(10, 1), 1) == 9.5
    assert round(1_000_000 / per_million_hours_of_share(10, 730), -2) == 6_900
    with pytest.raises(ValueError, match="not a share"):
        per_million_hours_of_share(100, 1)


def test_what_was_seen_outweighs_what_was_said() -> None:
    said = 10_000
    assert learned_per_million_hours(said, 0, 0) == said
    assert learned_per_million_hours(said, 0, 900 * HOUR_MS) == said // 10
    assert learned_per_million_hours(said, 1_000, 10_000 * HOUR_MS) == pytest.approx(99_109, abs=1)
    assert learned_per_million_hours(0, 0, 0) == 5_000


def drawn_losses(hazard: Hazard, work_ms: int, runs: int) -> list[int]:
    """The same by playing it: stretch after stretch until all have come through."""
    chance, found = Random(7), []
    for _ in range(runs):
        left, lost = work_ms, 0
        while left > 0:
            stretch = min(left, hazard.interval_ms or left)
            until = chance.expovariate(hazard.per_ms)
            if until >= stretch:
                left -= stretch
            else:
                lost += round(until) + hazard.restart_ms
        found.append(lost)
    return sorted(found)


@pytest.mark.parametrize(
    ("hours", "interval_min", "per_million_hours"),
    [
        (10, 30, 50_000),
        (48, 30, 100_000),
        (100, 60, 20_000),
        (5, None, 100_000),
        (12, None, 50_000),
    ],
)
def test_quantiles_are_those_of_playing_it(
    hours: int, interval_min: int | None, per_million_hours: int
) -> None:
    hazard = Hazard(
        per_million_hours=per_million_hours,
        interval_ms=interval_min * MINUTE_MS if interval_min else None,
        restart_ms=2 * MINUTE_MS,
    )
    work_ms = hours * HOUR_MS
    played = drawn_losses(hazard, work_ms, 4_000)
    for permille in (500, 900):
        wall_ms = work_ms + lost_ms(hazard, work_ms, permille)
        true_ms = work_ms + played[4_000 * permille // 1_000]
        assert wall_ms == pytest.approx(true_ms, rel=0.06), permille


hazards = st.builds(
    Hazard,
    per_million_hours=st.integers(1, 100_000),
    interval_ms=st.one_of(st.none(), st.integers(MINUTE_MS, 24 * HOUR_MS)),
    restart_ms=st.integers(0, HOUR_MS),
)


@given(hazard=hazards, work_ms=st.integers(1, 40 * HOUR_MS), more=st.integers(0, 10 * HOUR_MS))
def test_more_work_loses_no_less(hazard: Hazard, work_ms: int, more: int) -> None:
    half, nine = lost_ms(hazard, work_ms, 500), lost_ms(hazard, work_ms, 900)
    assert 0 <= half <= nine
    assert lost_ms(hazard, work_ms + more, 500) >= half - 1
    assert lost_ms(hazard, work_ms + more, 900) >= nine - 1


@given(hazard=hazards, work_ms=st.integers(1, 40 * HOUR_MS), factor=st.integers(1, 5))
def test_a_worse_market_loses_no_less(hazard: Hazard, work_ms: int, factor: int) -> None:
    nine = lost_ms(hazard, work_ms, 900)
    slower = replace(hazard, restart_ms=hazard.restart_ms * factor)
    assert lost_ms(slower, work_ms, 900) >= nine - 1
    if hazard.interval_ms is not None:
        rarer = replace(hazard, interval_ms=hazard.interval_ms * factor)
        assert rarer.expected_failures(work_ms) >= hazard.expected_failures(work_ms) - 1e-9

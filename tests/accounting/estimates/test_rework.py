"""The distribution of lost work, compared with drawn interruptions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.accounting.estimates.rework import (
    Hazard,
    lost_ms,
)
from bursar.model.units import HOUR_MS, MINUTE_MS


def drawn_losses(hazard: Hazard, work_ms: int, runs: int) -> list[int]:
    """Losses of simulated runs, with random interruptions, sorted."""
    random, losses = Random(7), []
    for _ in range(runs):
        left, lost = work_ms, 0
        while left > 0:
            segment = min(left, hazard.interval_ms or left)
            until = random.expovariate(hazard.per_ms)
            if until >= segment:
                left -= segment
            else:
                lost += round(until) + hazard.restart_ms
        losses.append(lost)
    return sorted(losses)


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
def test_quantiles_agree_with_drawn_losses(
    hours: int, interval_min: int | None, per_million_hours: int
) -> None:
    hazard = Hazard(
        per_million_hours=per_million_hours,
        interval_ms=interval_min * MINUTE_MS if interval_min else None,
        restart_ms=2 * MINUTE_MS,
    )
    work_ms = hours * HOUR_MS
    drawn = drawn_losses(hazard, work_ms, 4_000)
    for permille in (500, 900):
        wall_ms = work_ms + lost_ms(hazard, work_ms, permille)
        true_ms = work_ms + drawn[4_000 * permille // 1_000]
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

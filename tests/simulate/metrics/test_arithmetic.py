"""Integrals, quantiles, entitlements and Jain's index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.model.event import TenantChanged
from bursar.model.units import HOUR_MS
from bursar.simulate.metrics.cycle_times import EXACT_LIMIT, CycleTimes
from bursar.simulate.metrics.fairness import entitlements, jain
from bursar.simulate.metrics.live_jobs import SIZES, size_class
from bursar.simulate.metrics.quantiles import Grouping, distribution_of, nearest_rank
from bursar.simulate.metrics.time_integral import TimeIntegral
from tests.simulate.metrics.small_runs import OWNED, TWO_TEAMS, measured, submitted
from tests.support import job, queue, tenant


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(-50, 50)), max_size=30))
def test_a_time_integral_equals_a_sum_over_every_millisecond(
    changes: list[tuple[int, int]],
) -> None:
    meter = TimeIntegral()
    for at_ms, by in sorted(changes):
        meter.change(by, at_ms)
    slowly = sum(by * (1000 - at_ms) for at_ms, by in changes)
    assert meter.total(1000) == slowly


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, 0), ([5], 1, 5), ([5], 99, 5), ([1, 2, 3, 4], 50, 2), (list(range(1, 101)), 99, 99)],
)
def test_a_quantile_is_the_smallest_value_that_enough_values_do_not_exceed(
    values: list[int], percent: int, expected: int
) -> None:
    assert nearest_rank(np.array(values, dtype=np.int64), percent) == expected


def test_values_are_grouped() -> None:
    values, groups = np.array([30, 10, 20, 40]), np.array([0, 1, 0, 1])
    found = list(Grouping(groups, 3).of(values))
    assert [sorted(group.tolist()) for group in found] == [[20, 30], [10, 40], []]
    assert distribution_of(found[0]).mean == 25
    assert distribution_of(found[1]).largest == 40
    assert distribution_of(found[2]).count == 0


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=50), st.integers(1, 40))
def test_cycle_times_are_exact_while_few_and_accurate_to_one_percent_later(
    times_ns: list[int], copies: int
) -> None:
    few, many = CycleTimes(), CycleTimes()
    for time_ns in times_ns:
        few.add(time_ns)
    for time_ns in times_ns * (EXACT_LIMIT // len(times_ns) + copies):
        many.add(time_ns)
    exact, rounded = few.summary(), many.summary()
    ordered = sorted(times_ns)
    assert exact.count == len(ordered)
    assert exact.p50_ns == ordered[-(-50 * len(ordered) // 100) - 1]
    assert rounded.count == len(ordered) * (EXACT_LIMIT // len(times_ns) + copies)
    assert exact.p99_ns * 127 / 128 <= rounded.p99_ns <= exact.p99_ns


SIZE_OF = {0: "no GPU", 250: "part of a GPU", 1000: "1 GPU", 1001: "2-4 GPUs", 4000: "2-4 GPUs"}
SIZE_OF |= {8000: "5-8 GPUs", 9000: "9-32 GPUs", 32_000: "9-32 GPUs", 33_000: "33+ GPUs"}


@pytest.mark.parametrize("milli", SIZE_OF)
def test_job_sizes(milli: int) -> None:
    assert SIZES[size_class(milli)] == SIZE_OF[milli]


ENTITLEMENTS: dict[str, tuple[float, list[float], list[float], tuple[float, ...]]] = {
    "two teams that demand everything divide it by their weights": (12, [20, 20], [2, 1], (8, 4)),
    "a small demand is met, and the other team gets the rest": (12, [1, 20], [2, 1], (1, 11)),
    "a team without demand is entitled to nothing": (12, [0, 20], [2, 1], (0, 12)),
    "leftovers are divided by weight": (12, [3, 20, 20], [1, 1, 2], (3, 3, 6)),
    "a team without a weight gets what the others leave": (12, [4, 20], [1, 0], (4, 8)),
    "teams without weights divide by demand": (9, [10, 20], [0, 0], (3, 6)),
    "an empty fleet is divided into nothing": (0, [1, 1], [1, 1], (0, 0)),
    "without teams there are no entitlements": (0, [], [], ()),
}


@pytest.mark.parametrize("sentence", ENTITLEMENTS)
def test_entitlements(sentence: str) -> None:
    total, demands, claims, expected = ENTITLEMENTS[sentence]
    assert entitlements(total, demands, claims) == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 100)), min_size=1, max_size=8),
    st.floats(0, 1),
)
def test_entitlements_divide_everything_and_exceed_no_demand(
    wishes: list[tuple[int, float]], part: float
) -> None:
    demands, claims = [d for d, _ in wishes], [c for _, c in wishes]
    total = part * sum(demands)
    found = entitlements(total, demands, claims)
    assert sum(found) == pytest.approx(total, rel=1e-6, abs=1e-3)
    assert all(given <= demand + 1e-3 for given, demand in zip(found, demands, strict=True))


@pytest.mark.parametrize(
    ("values", "expected"), [([], 1), ([0, 0], 1), ([1, 1, 1], 1), ([1, 0, 0, 0], 0.25)]
)
def test_jains_index(values: list[float], expected: float) -> None:
    assert jain(values) == expected


# -- fairness of runs ----------------------------------------------------------------------------


def test_teams_that_hold_their_quotas_have_no_share_error() -> None:
    jobs = submitted(
        (0, job("a", 4, queue="vision", hours=3)), (0, job("b", 4, queue="product", hours=3))
    )
    fairness = measured(jobs, tenants=TWO_TEAMS).summary().fairness
    assert (fairness.share_error_mean, fairness.share_error_max, fairness.jain) == (0, 0, 1)
    assert fairness.worst_of_entitlement == 1


def test_a_team_without_gpus_for_half_of_the_time_has_the_largest_error() -> None:
    """Vision holds all GPUs for three hours and cannot be preempted; product submits after one hour."""
    stays = job("a", 8, queue="vision", hours=3, preemptible=False)
    jobs = submitted((0, stays), (HOUR_MS, job("b", 4, queue="product", hours=2)))
    summary = measured(jobs, tenants=TWO_TEAMS).summary()
    by_name = {team.team: team for team in summary.teams}
    # For two hours product demands 4 of 8 GPUs, is entitled to them and has none.
    assert summary.fairness.share_error_max == pytest.approx(0.5)
    assert summary.fairness.share_error_mean == pytest.approx(0.5)
    assert summary.fairness.worst_team == "product"
    assert by_name["product"].satisfied == 0.5
    assert by_name["product"].entitled_gpu_milli_ms == 16 * HOUR_MS * 1000
    assert summary.fairness.worst_of_entitlement == 0.5
    assert summary.fairness.jain == pytest.approx(1.5**2 / (2 * 1.25))


def test_without_quotas_entitlements_follow_weights() -> None:
    tenants = (tenant("acme"), queue("a", "acme", weight=3.0), queue("b", "acme"))
    stays = [job(f"{name}-1", 8, queue=name, hours=1, preemptible=False) for name in ("a", "b")]
    series = measured(submitted(*((0, spec) for spec in stays)), tenants=tenants).series()
    assert series.entitlements["a"][0] == pytest.approx(0.75)
    assert series.entitlements["b"][0] == pytest.approx(0.25)


def test_a_changed_quota_counts_from_the_change_on() -> None:
    stays = job("a", 8, queue="vision", hours=3, preemptible=False)
    late = job("b", 8, queue="product", hours=1, preemptible=False)
    more = TenantChanged(at_ms=2 * HOUR_MS, tenant=queue("vision", "science", {OWNED: 12}))
    jobs = submitted((0, stays), (HOUR_MS, late))
    measures = measured([*jobs, more], tenants=TWO_TEAMS)
    series = measures.series()
    entitled = [series.entitlements["science"][len(series) * n // 8] for n in (1, 3, 5, 7)]
    assert entitled == pytest.approx([1.0, 0.5, 0.75, 0.0])
    assert measures.summary().fairness.share_error_mean == pytest.approx(0.375)

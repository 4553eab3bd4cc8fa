"""Synthetic workloads have the published averages, arrival patterns and teams, and are deterministic."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise
from math import exp, log
from statistics import fmean, median

import pytest

from bursar.core.check import require_valid
from bursar.model.errors import UserError
from bursar.model.jobs.job import JobState
from bursar.model.tenants.policy import Policies
from bursar.model.units import DAY_MS, HOUR_MS, MILLI, SECOND_MS
from bursar.simulate.simulation import Simulation
from bursar.simulate.workload.generate.draw import stream, synthetic, synthetic_jobs
from bursar.simulate.workload.generate.presets import PRESETS, preset
from bursar.simulate.workload.generate.workload import (
    NORMAL,
    Deadlines,
    JobClass,
    LogNormal,
    Rhythm,
    SyntheticWorkload,
    Teams,
    UserEstimates,
)
from bursar.simulate.workload.trace_scenario import TraceMapping, as_scenario
from tests.seeds import first_always
from tests.support import fleet_of, pool, queue

PUBLISHED = {
    "philly-like": (18_006, 874, 1.928, 61_041),
    "helios-like": (6_652, 206, 3.716, 49_351),
    "llm-pretraining": (1_260, 124, 26.77, 267_900),
}
"""Mean and median run time in seconds, mean GPUs, mean GPU-seconds."""

PLAIN = SyntheticWorkload(
    source="plain",
    jobs=20_000,
    jobs_per_day=1_000,
    classes=(JobClass(weight=1, gpus=1, run=(LogNormal(median_ms=HOUR_MS, sigma=1.0),)),),
)


def mean_run_ms(workload: SyntheticWorkload) -> float:
    return sum(share * run.mean_ms(workload.longest_ms) for share, _, run in workload.components())


def mean_gpus(workload: SyntheticWorkload) -> float:
    return sum(share * job.gpu_total_milli / MILLI for share, job, _ in workload.components())


def median_run_ms(workload: SyntheticWorkload) -> float:
    low, high = 0.0, log(workload.longest_ms)
    for _ in range(60):
        middle = (low + high) / 2
        below = sum(share * cdf(run, middle) for share, _, run in workload.components())
        low, high = (middle, high) if below < 0.5 else (low, middle)
    return exp(low)


def cdf(run: LogNormal, log_ms: float) -> float:
    return NORMAL.cdf((log_ms - log(run.median_ms)) / run.sigma)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_preset_has_the_published_averages(name: str) -> None:
    workload = preset(name)
    found = (
        mean_run_ms(workload) / SECOND_MS,
        median_run_ms(workload) / SECOND_MS,
        mean_gpus(workload),
        workload.mean_gpu_ms() / SECOND_MS,
    )
    assert found == pytest.approx(PUBLISHED[name], rel=0.05)


def test_the_batch_jobs_of_the_inference_mix_have_the_published_averages() -> None:
    whole = preset("inference-mix")
    batch = replace(whole, classes=tuple(one for one in whole.classes if one.name == "batch"))
    found = (mean_run_ms(batch) / SECOND_MS, median_run_ms(batch) / SECOND_MS, mean_gpus(batch))
    assert found == pytest.approx((4_787, 481, 0.683), rel=0.05)


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize("seed", first_always(1, [1, 2]))
def test_generated_jobs_match_the_workload_description(name: str, seed: int) -> None:
    workload = preset(name, jobs=40_000)
    jobs = list(synthetic_jobs(workload, seed))
    assert len(jobs) == 40_000
    assert fmean(job.run_ms for job in jobs) == pytest.approx(mean_run_ms(workload), rel=0.1)
    assert median(job.run_ms for job in jobs) == pytest.approx(median_run_ms(workload), rel=0.1)
    gpus = fmean(job.gpu_total_milli for job in jobs) / MILLI
    assert gpus == pytest.approx(mean_gpus(workload), rel=0.1)
    assert all(a.submitted_ms <= b.submitted_ms for a, b in pairwise(jobs))
    assert len({job.job_id for job in jobs}) == len(jobs)
    assert all(0 < job.run_ms <= workload.longest_ms for job in jobs)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_week_has_the_given_number_of_jobs(name: str) -> None:
    workload = preset(name, jobs=100_000, jobs_per_day=2_000)
    weeks = Counter(job.submitted_ms // (7 * DAY_MS) for job in synthetic_jobs(workload, 1))
    assert [weeks[week] for week in range(7)] == pytest.approx([14_000] * 7, rel=0.05)


def test_the_same_seed_gives_the_same_jobs_and_another_seed_others() -> None:
    workload = preset("philly-like", jobs=500)
    assert synthetic(workload, 1) == synthetic(workload, 1)
    assert synthetic(workload, 1) != synthetic(workload, 2)
    assert tuple(stream(workload, 1).draw()) == synthetic(workload, 1).jobs


def test_a_million_jobs_are_drawn_one_by_one() -> None:
    jobs = synthetic_jobs(preset("helios-like", jobs=1_000_000), 1)
    assert len(list(islice(jobs, 10))) == 10


def test_arrivals_follow_the_hours_and_the_days() -> None:
    hours = (0.0,) * 8 + (2.0,) * 4 + (1.0,) * 12
    weekdays = (1.0,) * 5 + (0.5, 0.0)
    workload = replace(PLAIN, rhythm=Rhythm(hours=hours, weekdays=weekdays))
    jobs = [job for job in synthetic_jobs(workload, 1) if job.submitted_ms < 14 * DAY_MS]
    by_hour = Counter(job.submitted_ms % DAY_MS // HOUR_MS for job in jobs)
    by_day = Counter(job.submitted_ms // DAY_MS % 7 for job in jobs)
    assert not any(by_hour[hour] for hour in range(8))
    assert by_hour[9] == pytest.approx(2 * by_hour[15], rel=0.15)
    assert by_day[5] == pytest.approx(by_day[1] / 2, rel=0.2)
    assert not by_day[6]


def test_waits_between_jobs_are_exponential() -> None:
    jobs = list(synthetic_jobs(PLAIN, 1))
    waits = [b.submitted_ms - a.submitted_ms for a, b in pairwise(jobs)]
    mean = fmean(waits)
    assert mean == pytest.approx(DAY_MS / 1_000, rel=0.03)
    assert fmean(wait * wait for wait in waits) == pytest.approx(2 * mean * mean, rel=0.06)


def test_teams_share_the_jobs_by_zipf() -> None:
    workload = replace(PLAIN, teams=Teams(count=4, skew=1.0), templates=1_000)
    parts = Counter(job.team for job in synthetic_jobs(workload, 1))
    shares = [parts[f"team-0{rank}"] / workload.jobs for rank in range(1, 5)]
    assert shares == pytest.approx([12 / 25, 6 / 25, 4 / 25, 3 / 25], abs=0.02)
    assert set(stream(workload, 1).teams) == set(parts)


def test_users_overestimate_and_round_up() -> None:
    estimates = UserEstimates(given=0.8, max_factor=4.0)
    jobs = list(synthetic_jobs(replace(PLAIN, estimates=estimates), 1))
    estimated = [(job.run_ms, job.expected_ms) for job in jobs if job.expected_ms is not None]
    assert len(estimated) / len(jobs) == pytest.approx(0.8, abs=0.02)
    assert all(expected >= run for run, expected in estimated)
    rounded = [expected for _, expected in estimated if expected <= max(estimates.common_ms)]
    assert set(rounded) <= set(estimates.common_ms)
    assert fmean(run / expected for run, expected in estimated) < 0.5


def test_some_jobs_have_feasible_deadlines() -> None:
    jobs = list(synthetic_jobs(replace(PLAIN, deadlines=Deadlines(given=0.25)), 1))
    due = [job for job in jobs if job.deadline_ms is not None]
    assert len(due) / len(jobs) == pytest.approx(0.25, abs=0.02)
    assert all((job.deadline_ms or 0) >= job.submitted_ms + 1.4 * job.run_ms for job in due)


def test_jobs_of_one_template_have_similar_run_times() -> None:
    """Otherwise run times could not be learned from history."""

    def spread(similarity: float) -> float:
        runs: dict[str, list[int]] = {}
        for job in synthetic_jobs(replace(PLAIN, similarity=similarity), 1):
            runs.setdefault(job.name, []).append(job.run_ms)
        return fmean(max(one) / min(one) for one in runs.values())

    assert spread(0.95) < spread(0.5) < spread(0.0)


def test_a_workload_is_scaled_to_a_load() -> None:
    workload = replace(PLAIN, jobs=60_000).at_load(gpus=100, load=0.8)
    jobs = list(synthetic_jobs(workload, 1))
    busy = sum(job.run_ms for job in jobs) / jobs[-1].submitted_ms
    assert busy == pytest.approx(80, rel=0.05)


def test_the_mean_of_a_truncated_distribution_is_exact() -> None:
    cut = replace(PLAIN, longest_ms=2 * HOUR_MS, jobs=60_000, templates=1_000)
    drawn = fmean(job.run_ms for job in synthetic_jobs(cut, 1))
    assert mean_run_ms(cut) == pytest.approx(drawn, rel=0.01)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_runs_on_a_fleet(name: str) -> None:
    workload = preset(name, jobs=300).at_load(gpus=128, load=0.7)
    fleet = fleet_of(pool("a100", nodes=16))
    mapping = TraceMapping(parts_are_slices=True)
    run = as_scenario(stream(workload, 3), fleet, (queue("ops"),), Policies(), mapping)
    simulation = Simulation(run.scenario, check=require_valid)
    for _ in simulation.steps():
        pass
    assert set(simulation.state.finished.values()) == {JobState.SUCCEEDED}
    assert len(simulation.state.finished) + len(run.remarks.left_out) == 300
    assert all("do not fit on any pool at once" in one.problem for one in run.remarks.left_out)


@pytest.mark.parametrize(
    "wrong",
    [
        {"jobs": -1},
        {"jobs_per_day": 0.0},
        {"classes": ()},
        {"rhythm": Rhythm(hours=(0.0,) * 24)},
        {"rhythm": Rhythm(hours=(1.0,) * 23)},
        {"teams": Teams(count=0)},
        {"templates": 0},
        {"similarity": 1.5},
    ],
)
def test_invalid_numbers_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError) as caught:
        synthetic_jobs(replace(PLAIN, **wrong), 1)  # type: ignore[arg-type]
    assert caught.value.code == "bad-workload"


def test_an_unknown_preset_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UserError, match="Did you mean 'philly-like'"):
        preset("philly-likes")

"""Run times are learned from jobs that have ended, and from nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bursar.model.event import AttemptFailed, AttemptSucceeded, JobCancelled
from bursar.model.tenants.policy import Policies
from bursar.model.units import HOUR_MS, MINUTE_MS
from bursar.simulate.runs import FleetChoice, RunRequest, WorkloadOptions, prepare
from bursar.simulate.workload.run_time_predictor import (
    FIRST_GUESS_MS,
    MEMORY,
    PRIOR_JOBS,
    Predictor,
    RollingMean,
)
from bursar.simulate.workload.trace import TraceJob
from tests.support import fleet_of, pool

JOB = TraceJob(
    job_id="a", submitted_ms=0, run_ms=10 * HOUR_MS, team="red", user="ann", name="train", gpus=2
)


def guess_ms(predictor: Predictor, job: TraceJob) -> int:
    return predictor.guess(job)


def end(predictor: Predictor, job_id: str) -> None:
    predictor.apply_all([AttemptSucceeded(at_ms=1, job_id=job_id, attempt=1)])


def test_before_anything_has_ended_the_truth_is_not_known() -> None:
    predictor = Predictor()
    assert guess_ms(predictor, JOB) == FIRST_GUESS_MS
    assert guess_ms(predictor, replace(JOB, job_id="b")) == FIRST_GUESS_MS


def test_what_a_user_wrote_is_not_looked_at() -> None:
    assert guess_ms(Predictor(), replace(JOB, expected_ms=7)) == FIRST_GUESS_MS


def test_a_job_that_ended_teaches_about_those_like_it() -> None:
    predictor = Predictor()
    guess_ms(predictor, JOB)
    end(predictor, "a")
    assert guess_ms(predictor, replace(JOB, job_id="b")) == 10 * HOUR_MS


def test_the_narrower_likeness_weighs_more_with_every_job() -> None:
    predictor = Predictor()
    others = replace(JOB, team="blue", user="bob", run_ms=10 * HOUR_MS)
    for number in range(20):
        guess_ms(predictor, replace(others, job_id=f"o{number}"))
        end(predictor, f"o{number}")
    guesses = []
    for number in range(6):
        guesses.append(guess_ms(predictor, replace(JOB, job_id=f"s{number}", run_ms=MINUTE_MS)))
        end(predictor, f"s{number}")
    assert guesses == sorted(guesses, reverse=True)
    assert guesses[0] == 10 * HOUR_MS
    assert guesses[-1] < HOUR_MS


@pytest.mark.parametrize(
    "other",
    [
        replace(JOB, job_id="b", gpus=8),
        replace(JOB, job_id="b", name="eval"),
        replace(JOB, job_id="b", user="eve"),
    ],
)
def test_a_job_less_alike_is_guessed_from_the_wider_level(other: TraceJob) -> None:
    predictor = Predictor()
    guess_ms(predictor, JOB)
    end(predictor, "a")
    wide = replace(JOB, job_id="w", team="blue", run_ms=HOUR_MS)
    guess_ms(predictor, wide)
    end(predictor, "w")
    same, less = guess_ms(predictor, replace(JOB, job_id="c")), guess_ms(predictor, other)
    assert HOUR_MS < less < same


def test_jobs_that_do_not_end_well_teach_nothing() -> None:
    predictor = Predictor()
    guess_ms(predictor, JOB)
    predictor.apply_all(
        [AttemptFailed(at_ms=1, job_id="a", attempt=1), JobCancelled(at_ms=2, job_id="a")]
    )
    end(predictor, "a")
    assert guess_ms(predictor, replace(JOB, job_id="b")) == FIRST_GUESS_MS


def test_a_mean_is_exact_first_and_forgets_later() -> None:
    mean = RollingMean()
    for run_ms in (10, 20, 60):
        mean.add(run_ms)
    assert mean.mean_ms == pytest.approx(30)
    assert mean.weighted_with(30 + (3 + PRIOR_JOBS)) == pytest.approx(30 + PRIOR_JOBS)
    for _ in range(20 * MEMORY):
        mean.add(1_000)
    assert mean.mean_ms == pytest.approx(1_000)


def test_in_a_run_a_later_job_is_guessed_from_an_earlier_end(tmp_path: Path) -> None:
    """One node: the short jobs of one user are learned and pass the long ones of another."""
    rows = ["job_id,submit_s,run_s,gpus,team,user,expected_s"]
    for number in range(6):
        rows.append(
            f"teach{number},{number * 4000},{3600 if number % 2 else 60},8,all,u{number % 2},1"
        )
    rows += [
        "block,30000,600,8,all,x,1",
        "long,30001,3600,8,all,u1,1",
        "short,30002,60,8,all,u0,9999",
    ]
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(rows) + "\n", encoding="utf-8")
    log = tmp_path / "run.jsonl"
    request = RunRequest(
        name="qssf",
        source=str(trace),
        fleet=FleetChoice(
            name="one", fleet=fleet_of(pool("a", 1)), tenants=(), policies=Policies()
        ),
        policy="qssf",
        workload=WorkloadOptions(),
        log=log,
    )
    outcome = prepare(request).carry_out()
    assert outcome.summary.outcomes.succeeded == 9
    told = log.read_text(encoding="utf-8")
    started = [line for line in told.splitlines() if "AttemptStarted" in line]
    order = [name for line in started for name in ("block", "long", "short") if f'"{name}"' in line]
    assert order == ["block", "short", "long"]

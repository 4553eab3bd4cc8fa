"""Run times are predicted from ended jobs only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bursar.model.event import AttemptFailed, AttemptSucceeded, JobCancelled
from bursar.model.tenants.policy import Policies
from bursar.model.units import HOUR_MS, MINUTE_MS
from bursar.simulate.runs import FleetChoice, RunRequest, prepare
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


def predicted_ms(predictor: Predictor, job: TraceJob) -> int:
    return predictor.guess(job)


def end(predictor: Predictor, job_id: str) -> None:
    predictor.apply_all([AttemptSucceeded(at_ms=1, job_id=job_id, attempt=1)])


def test_before_any_job_has_ended_no_run_time_is_known() -> None:
    predictor = Predictor()
    assert predicted_ms(predictor, JOB) == FIRST_GUESS_MS
    assert predicted_ms(predictor, replace(JOB, job_id="b")) == FIRST_GUESS_MS


def test_user_estimates_are_ignored() -> None:
    assert predicted_ms(Predictor(), replace(JOB, expected_ms=7)) == FIRST_GUESS_MS


def test_an_ended_job_predicts_similar_jobs() -> None:
    predictor = Predictor()
    predicted_ms(predictor, JOB)
    end(predictor, "a")
    assert predicted_ms(predictor, replace(JOB, job_id="b")) == 10 * HOUR_MS


def test_closer_matches_weigh_more_with_every_ended_job() -> None:
    predictor = Predictor()
    others = replace(JOB, team="blue", user="bob", run_ms=10 * HOUR_MS)
    for number in range(20):
        predicted_ms(predictor, replace(others, job_id=f"o{number}"))
        end(predictor, f"o{number}")
    guesses = []
    for number in range(6):
        guesses.append(predicted_ms(predictor, replace(JOB, job_id=f"s{number}", run_ms=MINUTE_MS)))
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
def test_a_less_similar_job_is_predicted_from_a_wider_group(other: TraceJob) -> None:
    predictor = Predictor()
    predicted_ms(predictor, JOB)
    end(predictor, "a")
    wide = replace(JOB, job_id="w", team="blue", run_ms=HOUR_MS)
    predicted_ms(predictor, wide)
    end(predictor, "w")
    same, less = predicted_ms(predictor, replace(JOB, job_id="c")), predicted_ms(predictor, other)
    assert HOUR_MS < less < same


def test_only_successful_jobs_are_learned_from() -> None:
    predictor = Predictor()
    predicted_ms(predictor, JOB)
    predictor.apply_all(
        [AttemptFailed(at_ms=1, job_id="a", attempt=1), JobCancelled(at_ms=2, job_id="a")]
    )
    end(predictor, "a")
    assert predicted_ms(predictor, replace(JOB, job_id="b")) == FIRST_GUESS_MS


def test_a_mean_is_exact_at_first_and_decays_later() -> None:
    mean = RollingMean()
    for run_ms in (10, 20, 60):
        mean.add(run_ms)
    assert mean.mean_ms == pytest.approx(30)
    assert mean.weighted_with(30 + (3 + PRIOR_JOBS)) == pytest.approx(30 + PRIOR_JOBS)
    for _ in range(20 * MEMORY):
        mean.add(1_000)
    assert mean.mean_ms == pytest.approx(1_000)


def test_in_a_run_later_jobs_are_predicted_from_ended_jobs(tmp_path: Path) -> None:
    """On one node, short jobs of one user pass the long ones of another once their run times are learned."""
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
        log=log,
    )
    outcome = prepare(request).carry_out()
    assert outcome.summary.outcomes.succeeded == 9
    events = log.read_text(encoding="utf-8")
    started = [line for line in events.splitlines() if "AttemptStarted" in line]
    order = [name for line in started for name in ("block", "long", "short") if f'"{name}"' in line]
    assert order == ["block", "short", "long"]

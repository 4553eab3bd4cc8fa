"""Run times learned from a tenant's own jobs."""

from __future__ import annotations

from dataclasses import replace

from bursar.accounting.estimates.run_time import (
    RunTimeHistory,
    product_limit,
    similarity_levels,
)
from bursar.model.event import (
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    JobCancelled,
    JobSubmitted,
)
from bursar.model.jobs.job import CheckpointPolicy, JobSpec
from bursar.model.units import HOUR_MS
from tests.support import job

SPEC = replace(job("train", gpus=4), similarity_keys=("vision", "ada"))
NOW_MS = 1_000 * HOUR_MS


def begin(runs: RunTimeHistory, job_id: str, spec: JobSpec, at_ms: int = 0) -> None:
    runs.apply(JobSubmitted(at_ms=at_ms, job_id=job_id, spec=spec, priority=0))
    runs.apply(AttemptStarted(at_ms=at_ms, job_id=job_id, attempt=1))


def done(runs: RunTimeHistory, job_id: str, spec: JobSpec, hours: int) -> None:
    begin(runs, job_id, spec)
    runs.apply(AttemptSucceeded(at_ms=hours * HOUR_MS, job_id=job_id, attempt=1))


def test_the_narrowest_key_with_enough_runs_gives_the_estimate() -> None:
    runs = RunTimeHistory()
    other = replace(SPEC, similarity_keys=("vision", "bob"))
    for number in range(20):
        done(runs, f"bob-{number}", other, 50)
    assert runs.run_time(replace(SPEC, queue="elsewhere"), NOW_MS) is None
    wide = runs.run_time(SPEC, NOW_MS)
    assert wide is not None and wide.p50_ms == 50 * HOUR_MS
    assert (
        wide.basis == "of 20 jobs of vision with 4 GPUs 50 % ran up to 2 d 2 h, 90 % up to 2 d 2 h"
    )
    for number, hours in enumerate((1, 2, 3, 4)):
        done(runs, f"ada-{number}", SPEC, hours)
    assert runs.run_time(SPEC, NOW_MS) != wide, "ada's four jobs count among those of the team"
    done(runs, "ada-4", SPEC, 5)
    own = runs.run_time(SPEC, NOW_MS)
    assert own is not None and (own.p50_ms, own.p90_ms) == (3 * HOUR_MS, 5 * HOUR_MS)
    limited = runs.run_time(replace(SPEC, max_run_ms=4 * HOUR_MS), NOW_MS)
    assert limited is not None and limited.p90_ms == 4 * HOUR_MS


def test_running_jobs_count_with_their_run_time_so_far() -> None:
    """Five have ended within five hours; five have been running for a hundred."""
    runs = RunTimeHistory()
    for number in range(5):
        begin(runs, f"long-{number}", SPEC, NOW_MS - 100 * HOUR_MS)
        done(runs, f"short-{number}", SPEC, number + 1)
    run_time = runs.run_time(SPEC, NOW_MS)
    assert run_time is not None and (run_time.p50_ms, run_time.p90_ms) == (
        5 * HOUR_MS,
        100 * HOUR_MS,
    )


def test_lost_work_and_restarts_are_not_counted() -> None:
    """Two hours, saved after one; a restart of 30 minutes; then the second hour again, and it ends."""
    runs, half = RunTimeHistory(), HOUR_MS // 2
    spec = replace(SPEC, checkpoint=CheckpointPolicy(interval_ms=HOUR_MS, restart_ms=half))
    for number in range(5):
        name = f"j{number}"
        begin(runs, name, spec)
        runs.apply(CheckpointSaved(at_ms=HOUR_MS, job_id=name, attempt=1))
        runs.apply(AttemptPreempted(at_ms=HOUR_MS + half, job_id=name, attempt=1))
        runs.apply(AttemptStarted(at_ms=9 * HOUR_MS, job_id=name, attempt=2))
        runs.apply(AttemptSucceeded(at_ms=10 * HOUR_MS + half, job_id=name, attempt=2))
    run_time = runs.run_time(spec, NOW_MS)
    assert run_time is not None and run_time.p50_ms == run_time.p90_ms == 2 * HOUR_MS


def test_cancelled_and_failed_jobs_stop_counting() -> None:
    runs = RunTimeHistory()
    for number in range(5):
        done(runs, f"j{number}", SPEC, 2)
    begin(runs, "cancelled", SPEC)
    runs.apply(JobCancelled(at_ms=HOUR_MS, job_id="cancelled"))
    begin(runs, "failed", SPEC)
    runs.apply(AttemptFailed(at_ms=HOUR_MS, job_id="failed", attempt=1))
    run_time = runs.run_time(SPEC, NOW_MS)
    assert run_time is not None and run_time.p90_ms == 2 * HOUR_MS


def test_quantiles_of_runs_that_have_not_ended() -> None:
    """Kaplan-Meier by hand: of 4, one ends at 1, one is observed until 2, one ends at 3, one at 4."""
    seen = [(1, True), (2, False), (3, True), (4, True)]
    assert product_limit(seen, (250, 500, 900)) == (1, 3, 4)
    assert product_limit([(5, False), (7, False)], (500, 900)) == (7, 7)
    assert product_limit([(n, True) for n in range(1, 11)], (500, 900)) == (5, 9)


def test_similarity_levels_go_from_wide_to_narrow() -> None:
    assert [description for _, description in similarity_levels(SPEC)] == [
        f"of {SPEC.queue}",
        f"of {SPEC.queue} with 4 GPUs",
        "of vision with 4 GPUs",
        "of vision/ada with 4 GPUs",
        "of vision/ada/train with 4 GPUs",
    ]

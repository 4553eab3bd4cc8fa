"""The work of jobs in a recorded history."""

from __future__ import annotations

from bursar.model.event import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    Event,
)
from bursar.model.units import MINUTE_MS
from bursar.simulate.workload.recorded_work import read_history
from tests.support import fleet_of, job, pool, state_of, submission


def minutes(*events: Event) -> float:
    """The true run time of a job with these events."""
    submitted = submission(state_of(fleet_of(pool("a100"))), job("train"))
    return read_history([submitted, *events]).run_ms["train"] / MINUTE_MS


def started(attempt: int, minute: int) -> Event:
    return AttemptStarted(at_ms=minute * MINUTE_MS, job_id="train", attempt=attempt)


def saved(attempt: int, minute: int) -> Event:
    return CheckpointSaved(at_ms=minute * MINUTE_MS, job_id="train", attempt=attempt)


def failed(attempt: int, minute: int) -> Event:
    return AttemptFailed(at_ms=minute * MINUTE_MS, job_id="train", attempt=attempt)


def succeeded(attempt: int, minute: int) -> Event:
    return AttemptSucceeded(at_ms=minute * MINUTE_MS, job_id="train", attempt=attempt)


def test_work_of_a_failed_attempt_counts_up_to_its_last_checkpoint_if_the_job_is_retried() -> None:
    lost = (started(1, 0), failed(1, 10))
    assert minutes(*lost, started(2, 20), succeeded(2, 45)) == 25
    partly_lost = (started(1, 0), saved(1, 6), failed(1, 10))
    assert minutes(*partly_lost, started(2, 20), succeeded(2, 45)) == 6 + 25


def test_a_job_that_failed_for_good_runs_as_long_as_it_did() -> None:
    assert minutes(started(1, 0), failed(1, 10)) == 10
    assert minutes(started(1, 0), failed(1, 10), started(2, 20), failed(2, 50)) == 30
    assert minutes(started(1, 0), saved(1, 4), failed(1, 10)) == 10


def test_a_retry_that_fails_before_it_starts_adds_no_work() -> None:
    assert minutes(started(1, 0), failed(1, 10), failed(2, 60)) == 10

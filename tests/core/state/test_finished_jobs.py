"""Finished jobs are dropped eventually, unless a live job depends on them."""

from __future__ import annotations

import pytest

from bursar.core.state.finished_jobs import FinishedJobs
from bursar.model.jobs.job import JobState

OVER, BADLY = JobState.SUCCEEDED, JobState.FAILED


def ended(count: int, needed: set[str], limit: int = 4) -> FinishedJobs:
    found = FinishedJobs(needed, limit)
    for number in range(count):
        found[f"job-{number}"] = BADLY if number == 0 else OVER
    return found


def test_the_last_jobs_are_stored() -> None:
    found = ended(100, set())
    assert all(f"job-{number}" in found for number in range(96, 100))
    assert found["job-99"] is OVER


def test_memory_is_bounded() -> None:
    found = ended(1_000, set())
    assert len(found) <= 8
    assert "job-0" not in found
    assert found.get("job-0") is None


def test_a_dependency_of_a_live_job_is_stored() -> None:
    found = ended(1_000, {"job-0", "job-7"})
    assert found["job-0"] is BADLY
    assert found["job-7"] is OVER
    assert "job-8" not in found


def test_a_job_without_dependents_is_dropped_too() -> None:
    needed = {"job-0"}
    found = ended(100, needed)
    needed.clear()
    for number in range(100, 110):
        found[f"job-{number}"] = OVER
    assert "job-0" not in found


def test_finished_jobs_are_a_mapping() -> None:
    found = ended(6, set())
    assert sorted(found) == [f"job-{number}" for number in range(6)]
    assert dict(found)["job-0"] is BADLY
    del found["job-0"]
    assert len(found) == 5
    with pytest.raises(KeyError):
        found["job-0"]

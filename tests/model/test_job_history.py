"""What stopped a job, from its events."""

from __future__ import annotations

from bursar.model.event import AttemptFailed
from bursar.model.explain.job_history import job_history
from bursar.model.jobs.attempt import Exit


def test_a_failure_is_listed_with_its_exit_if_that_is_known() -> None:
    known = AttemptFailed(at_ms=1, job_id="a", attempt=1, exit=Exit(code=3))
    unknown = AttemptFailed(at_ms=2, job_id="a", attempt=2)
    texts = [str(one) for one in job_history([known, unknown])]
    assert texts[0] == "attempt 1 failed with exit code 3"
    assert texts[1].startswith("attempt 2 failed")
    assert "code" not in texts[1]

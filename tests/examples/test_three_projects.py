"""Three projects share 20 GPUs of this machine: one preempts, one borrows, one uses idle GPUs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.examples.up import Installation, until, up

EXAMPLE = Path(__file__).parents[2] / "examples" / "three-projects"

Jobs = list[dict[str, Any]]


def state_of(jobs: Jobs, state: str) -> int:
    return sum(job["state"] == state for job in jobs)


def until_jobs(
    there: Installation, queue: str, condition: Callable[[Jobs], bool], description: str
) -> None:
    until(lambda: condition(there.jobs("--queue", queue)), description)


def test_a_preempts_c_and_b_borrows_and_why_explains_it(tmp_path: Path) -> None:
    with up(tmp_path, EXAMPLE / "fleet.yaml") as there:
        run_example(there)


def run_example(there: Installation) -> None:
    jobs = EXAMPLE / "jobs"
    there.bursar("submit", str(jobs / "1-preprocess.yaml"), "-y")
    until_jobs(
        there, "preprocessing", lambda all_: state_of(all_, "running") == 2, "C runs on idle GPUs"
    )
    there.bursar("submit", str(jobs / "2-experiments.yaml"), "-y")
    until_jobs(
        there, "experiments", lambda all_: state_of(all_, "running") == 12, "B runs all twelve"
    )
    quota = json.loads(there.bursar("quota", "-o", "json"))
    borrowed = {row["tenant"]: row["borrowed"] for row in quota}
    assert borrowed["experiments"] == 4_000, "B borrows four of the GPUs that A does not use"
    assert borrowed["preprocessing"] == 8_000, "C uses borrowed GPUs only"
    time.sleep(1.2)

    there.bursar("submit", str(jobs / "3-retrain.yaml"), "-y")
    until_jobs(there, "retraining", lambda all_: state_of(all_, "running") == 1, "A runs")
    preprocess = there.jobs("--queue", "preprocessing")
    assert state_of(preprocess, "queued") == 2
    assert [job["preemptions"] for job in preprocess] == [1, 1]
    assert state_of(there.jobs("--queue", "experiments"), "running") == 12, (
        "B keeps what it borrowed"
    )

    output = there.bursar("why", preprocess[0]["id"])
    assert (
        "needs 4 GPUs" in output and "retraining 8 GPUs" in output and "expected to start" in output
    )
    retrain = there.jobs("--queue", "retraining")[0]
    assert "t4-0001" in there.bursar("why", retrain["id"])

    until_jobs(there, "retraining", lambda all_: state_of(all_, "succeeded") == 1, "A ends")
    logs = there.bursar("logs", retrain["id"])
    assert "rank 0 of 2" in logs and "rank 1 of 2" in logs
    until_jobs(there, "preprocessing", lambda all_: state_of(all_, "running") == 2, "C runs again")
    assert {job["attempt"] for job in there.jobs("--queue", "preprocessing")} == {2}

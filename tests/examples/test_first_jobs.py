"""``make run`` prints the submitted jobs and the next commands, at every start."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.ports import JobFilter
from bursar.wiring import sample_jobs
from tests.control.harness import ControlPlaneHarness, until

SWEEP = "name: sweep\nqueue: retraining\narray: 3\nresources: {accelerators: 'T4:1'}\nrun: 'true'\n"


def test_every_start_prints_the_next_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_jobs, "BETWEEN_FILES_SECONDS", 0.01)
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "1-sweep.yaml").write_text(SWEEP, encoding="utf-8")
    harness = ControlPlaneHarness(tmp_path)
    starts: list[list[str]] = []
    for _ in range(2):
        messages: list[str] = []
        with harness.plane() as plane, sample_jobs.submitting(plane, folder, messages.append):
            until(lambda: sample_jobs.WHAT_NEXT in messages, "the next commands are printed")  # noqa: B023
            (array,) = {job.id.partition("[")[0] for job in plane.reader.jobs(JobFilter())}
        starts.append(messages)
    submitted = f"submitted 1-sweep.yaml to retraining: {array}, an array of 3 jobs"
    known = "this installation has 3 jobs, 0 of them ended"
    assert [messages[0] for messages in starts] == [submitted, known]

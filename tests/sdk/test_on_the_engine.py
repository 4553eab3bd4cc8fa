"""The local engine passes on the reports of a job that uses the SDK."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bursar.model.engine_report import Progressed, StopAcknowledged
from bursar.model.event import AttemptResumed, CheckpointSaved
from bursar.model.jobs.run_spec import RunSpec
from bursar.sdk import PREEMPTED_EXIT
from tests.conformance.engine_harness import Listener, LocalHarness, local_harness, until
from tests.conformance.engine_orders import order, ref
from tests.sdk.writing import ROOT

JOB = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from bursar.sdk import checkpointing
assert os.environ["BURSAR_GRACE_SECONDS"] == "20"
with checkpointing(sys.argv[2]) as run:
    found = run.resume()
    step = found.step if found else 0
    while True:
        step += 1
        time.sleep(0.01)
        run.progress(step, 1_000_000)
        if step == 5 or run.should_stop:
            run.save(step, lambda folder: (folder / "w").write_text("x" * 100))
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LocalHarness]:
    with local_harness(tmp_path) as harness:
        yield harness


def reports_of(listener: Listener, kind: type, attempt: int) -> list[Any]:
    listener.listen(0.1)
    return [
        report
        for report in listener.received
        if isinstance(report, kind) and getattr(report, "attempt", None) == attempt
    ]


def is_reported(listener: Listener, kind: type, attempt: int) -> bool:
    return bool(reports_of(listener, kind, attempt))


def test_saves_resumes_and_progress_are_reported(harness: LocalHarness, tmp_path: Path) -> None:
    listener = harness.open()
    arguments = (sys.executable, "-c", JOB, str(ROOT / "src"), str(tmp_path / "c"))
    recipe = RunSpec(argv=arguments, grace_seconds=20)
    steps = []
    for attempt in (1, 2):
        listener.engine.start(order("j", recipe, attempt=attempt))
        first = AttemptResumed if attempt == 2 else CheckpointSaved
        until(f"{first.__name__} is reported", partial(is_reported, listener, first, attempt))
        listener.engine.stop(ref("j", attempt), 20)
        assert listener.ended(ref("j", attempt)).code == PREEMPTED_EXIT
        saved = reports_of(listener, CheckpointSaved, attempt)[-1]
        assert isinstance(saved, CheckpointSaved)
        assert saved.size_bytes == 100 and saved.save_ms is not None
        steps.append(saved.step)
        assert reports_of(listener, Progressed, attempt)
        stopped = reports_of(listener, StopAcknowledged, attempt)[-1]
        assert isinstance(stopped, StopAcknowledged)
        assert stopped.source == "signal" and stopped.ends_at_ms == stopped.at_ms + 20_000
    resumed = reports_of(listener, AttemptResumed, 2)
    assert [report.step for report in resumed] == steps[:1]

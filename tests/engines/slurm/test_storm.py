"""2,000 short jobs while Slurm's daemons are killed: none is lost, run twice or unbilled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bursar.model.jobs.job import JobState
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import JobFilter
from bursar.wiring.verify_store import prove
from tests.engines.slurm.planes import Driven, driven
from tests.support.shared_slurm_lab import needs_slurm, own_lab
from tests.support.slurm_lab import Lab, LabPlan
from tests.support.slurm_lab.lab_spec import t4_nodes

pytestmark = [pytest.mark.real, needs_slurm]

JOBS = 2_000
TIMEOUT_SECONDS = 90
"""The longest time without the end of a job."""
DOWN_SECONDS = 2.0
SCRIPT = 'echo "$BURSAR_JOB_ID" >>"$EFFECTS"'
PLAN = LabPlan(nodes=t4_nodes(6), database=False, users=(), slurmd_timeout_seconds=60)


def kill_and_restart(lab: Lab, name: str, start: Callable[[], None]) -> None:
    lab.kill(name)
    time.sleep(DOWN_SECONDS)
    start()


def outages(lab: Lab) -> list[tuple[int, Callable[[], None]]]:
    """Outages, each with the number of ended jobs after which it happens."""
    return [
        (200, lambda: kill_and_restart(lab, "slurmctld", lab.start_controller)),
        (500, lambda: kill_and_restart(lab, "slurmd.t4-2", lambda: lab.start_node("t4-2"))),
        (800, lambda: kill_and_restart(lab, "slurmrestd", lab.start_rest)),
        (1_100, lambda: kill_and_restart(lab, "slurmctld", lab.start_controller)),
        (1_400, lambda: kill_and_restart(lab, "slurmd.t4-5", lambda: lab.start_node("t4-5"))),
        (1_700, lambda: kill_and_restart(lab, "slurmrestd", lab.start_rest)),
    ]


def resume_drained(lab: Lab) -> None:
    """Resume drained nodes, as an operator does. A slurmctld that lost jobs reuses their ids, and Slurm
    drains nodes on which it finds two jobs with the same id."""
    lines = set(lab.run("sinfo", "-h", "-N", "-o", "%N|%T|%E").splitlines())
    for name, state, reason in sorted(line.split("|", 2) for line in lines):
        if state == "drained" and "Duplicate jobid" in reason:
            lab.run("scontrol", "update", f"NodeName={name}", "State=RESUME")


def run_with_outages(bursar: Driven, lab: Lab) -> None:
    """Cause outages until all jobs have ended."""
    pending = outages(lab)
    over, progress_at = 0, time.monotonic()
    while over < JOBS:
        counts = bursar.counts()
        before, over = over, counts.get(JobState.SUCCEEDED, 0) + counts.get(JobState.FAILED, 0)
        if over > before:
            progress_at = time.monotonic()
        assert time.monotonic() < progress_at + TIMEOUT_SECONDS, f"no more progress: {counts}"
        if pending and over >= pending[0][0]:
            pending.pop(0)[1]()
        resume_drained(lab)
        time.sleep(0.5)
    assert pending == []


def unsuccessful_jobs(bursar: Driven, effects: Path) -> list[str]:
    """Jobs that did not succeed, with their details."""
    unsuccessful = JobFilter(states=frozenset(JobState) - {JobState.SUCCEEDED}, limit=20)
    ran = effects.read_text(encoding="utf-8").split()
    details = []
    for row in bursar.plane.reader.jobs(unsuccessful):
        folder = bursar.state / "slurm" / "attempts" / row.id / str(row.attempt)
        log = folder / "batch.log"
        output = log.read_text(encoding="utf-8") if log.exists() else "no batch.log"
        details.append(f"{row.state} {row.exit_detail!r}, ran {ran.count(row.id)} times: {output}")
    return details


def test_no_job_is_lost_or_run_twice(tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    nodes = tuple(node.name for node in PLAN.nodes)
    with own_lab(PLAN) as lab:
        with driven(lab, tmp_path / "state", nodes) as bursar:
            recipe = RunSpec(run=SCRIPT, envs={"EFFECTS": str(effects)})
            submitted = bursar.submit(JOBS, recipe)
            run_with_outages(bursar, lab)
            assert unsuccessful_jobs(bursar, effects) == []
            assert bursar.counts() == {JobState.SUCCEEDED: JOBS}
        ran = Counter(effects.read_text(encoding="utf-8").split())
        assert sorted(job for job, times in ran.items() if times > 1) == []
        assert set(ran) == set(submitted)
        assert lab.run("squeue", "-h").strip() == ""
    proof = prove(str(tmp_path / "state"), None)
    assert (proof.differences, proof.book_faults) == ((), ())

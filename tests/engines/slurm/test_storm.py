"""2,000 short jobs while Slurm's daemons are killed under them: none lost, none run twice, none unpaid."""

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
"""How long nothing may end."""
DOWN_SECONDS = 2.0
SCRIPT = 'echo "$BURSAR_JOB_ID" >>"$EFFECTS"'
PLAN = LabPlan(nodes=t4_nodes(6), database=False, users=(), slurmd_timeout_seconds=60)


def kill_and_restart(lab: Lab, name: str, start: Callable[[], None]) -> None:
    lab.kill(name)
    time.sleep(DOWN_SECONDS)
    start()


def blows(lab: Lab) -> list[tuple[int, Callable[[], None]]]:
    """After how many ends what is killed."""
    return [
        (200, lambda: kill_and_restart(lab, "slurmctld", lab.start_controller)),
        (500, lambda: kill_and_restart(lab, "slurmd.t4-2", lambda: lab.start_node("t4-2"))),
        (800, lambda: kill_and_restart(lab, "slurmrestd", lab.start_rest)),
        (1_100, lambda: kill_and_restart(lab, "slurmctld", lab.start_controller)),
        (1_400, lambda: kill_and_restart(lab, "slurmd.t4-5", lambda: lab.start_node("t4-5"))),
        (1_700, lambda: kill_and_restart(lab, "slurmrestd", lab.start_rest)),
    ]


def resume_drained(lab: Lab) -> None:
    """What an operator does: a slurmctld that forgot jobs gives their ids away again, and Slurm then closes
    nodes on which it finds two jobs of one id."""
    lines = set(lab.run("sinfo", "-h", "-N", "-o", "%N|%T|%E").splitlines())
    for name, state, reason in sorted(line.split("|", 2) for line in lines):
        if state == "drained" and "Duplicate jobid" in reason:
            lab.run("scontrol", "update", f"NodeName={name}", "State=RESUME")


def weather(bursar: Driven, lab: Lab) -> None:
    """Strike as the jobs go on, until all are over."""
    waiting = blows(lab)
    over, moved_at = 0, time.monotonic()
    while over < JOBS:
        counts = bursar.counts()
        before, over = over, counts.get(JobState.SUCCEEDED, 0) + counts.get(JobState.FAILED, 0)
        if over > before:
            moved_at = time.monotonic()
        assert time.monotonic() < moved_at + TIMEOUT_SECONDS, f"nothing moves any more: {counts}"
        if waiting and over >= waiting[0][0]:
            waiting.pop(0)[1]()
        resume_drained(lab)
        time.sleep(0.5)
    assert waiting == []


def not_well(bursar: Driven, effects: Path) -> list[str]:
    """Jobs that did not succeed, and all that is known of them."""
    wanted = JobFilter(states=frozenset(JobState) - {JobState.SUCCEEDED}, limit=20)
    ran = effects.read_text(encoding="utf-8").split()
    told = []
    for row in bursar.plane.reader.jobs(wanted):
        folder = bursar.state / "slurm" / "attempts" / row.id / str(row.attempt)
        log = folder / "batch.log"
        said = log.read_text(encoding="utf-8") if log.exists() else "no batch.log"
        told.append(f"{row.state} {row.exit_detail!r}, ran {ran.count(row.id)} times: {said}")
    return told


def test_no_job_is_lost_and_none_is_doubled(tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    nodes = tuple(node.name for node in PLAN.nodes)
    with own_lab(PLAN) as lab:
        with driven(lab, tmp_path / "state", nodes) as bursar:
            recipe = RunSpec(run=SCRIPT, envs={"EFFECTS": str(effects)})
            submitted = bursar.submit(JOBS, recipe)
            weather(bursar, lab)
            assert not_well(bursar, effects) == []
            assert bursar.counts() == {JobState.SUCCEEDED: JOBS}
        ran = Counter(effects.read_text(encoding="utf-8").split())
        assert sorted(job for job, times in ran.items() if times > 1) == []
        assert set(ran) == set(submitted)
        assert lab.run("squeue", "-h").strip() == ""
    proof = prove(str(tmp_path / "state"), None)
    assert (proof.differences, proof.book_faults) == ((), ())

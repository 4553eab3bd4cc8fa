"""Nodes that lose their power, and a lab that leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

import pytest

from bursar.model.errors import EngineFault
from bursar.model.jobs.job import OVER, JobState
from bursar.model.jobs.run_spec import RunSpec
from tests.conformance.engine_harness import until
from tests.engines.slurm.planes import Driven, driven
from tests.engines.slurm.test_storm import resume_drained
from tests.support.shared_slurm_lab import needs_slurm, own_lab
from tests.support.slurm_lab import Lab, LabPlan
from tests.support.slurm_lab.lab_spec import t4_nodes

pytestmark = [pytest.mark.real, needs_slurm]

PLAN = LabPlan(nodes=t4_nodes(2), database=False, users=(), slurmd_timeout_seconds=5)


def with_path_below(folder: Path) -> list[str]:
    """Processes that were started with this folder in their words or have a file open in it."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and int(entry) != os.getpid():
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                files = [
                    os.readlink(f"/proc/{entry}/fd/{fd}") for fd in os.listdir(f"/proc/{entry}/fd")
                ]
            except OSError:
                continue
            if str(folder) in words or any(file.startswith(f"{folder}/") for file in files):
                found.append(f"{entry}: {words}")
    return found


def until_over(bursar: Driven, lab: Lab, patience: float) -> None:
    """When it takes too long, say what Bursar and Slurm say of it."""
    try:
        until("all jobs are over", lambda: set(bursar.counts()) <= OVER, patience)
    except AssertionError as late:
        said = [str(late), str(bursar.counts()), str(bursar.plane.health()), str(lab.status())]
        for question in ("node", "job"):
            with contextlib.suppress(EngineFault):
                said.append(lab.run("scontrol", "-o", "show", question, timeout_seconds=10))
        said.append((lab.folder / "log" / "slurmctld.log").read_text(encoding="utf-8")[-3_000:])
        raise AssertionError("\n".join(said)) from late


def test_a_lab_that_is_stopped_leaves_nothing() -> None:
    lab = Lab(Path(tempfile.mkdtemp(prefix="bursar-slurm-")), LabPlan(nodes=t4_nodes(2)))
    lab.start()
    stubborn = "trap '' TERM; while :; do sleep 0.1; done"
    lab.run("sbatch", "-o", "/dev/null", "--wrap", stubborn)
    until("the job runs", lambda: "RUNNING" in lab.run("squeue", "-h", "-o", "%T"))
    pids = [pid for pid in lab.status().values() if pid]
    assert len(pids) == len(lab.status()) and with_path_below(lab.folder)
    lab.stop()
    assert with_path_below(lab.folder) == []
    assert not lab.folder.exists()


def test_jobs_of_a_node_that_loses_power_start_elsewhere(tmp_path: Path) -> None:
    script = (
        f'[ "$BURSAR_ATTEMPT" = 1 ] && exec sleep 300; echo "$BURSAR_NODE" >> "{tmp_path}/trail"'
    )
    with own_lab(PLAN) as lab, driven(lab, tmp_path / "state", ("t4-1", "t4-2")) as bursar:
        (job,) = bursar.submit(1, RunSpec(run=script))
        until("it runs", lambda: bursar.counts() == {JobState.RUNNING: 1})
        row = bursar.plane.reader.job(job)
        assert row is not None and row.placement is not None
        lost = row.placement.tasks[0].node
        lab.cut_power(lost)
        until_over(bursar, lab, 90)
        row = bursar.plane.reader.job(job)
        assert row is not None and (row.state, row.exit_detail) == (JobState.SUCCEEDED, "")
        assert (row.attempt, row.failures) == (2, 0)
        other = {"t4-1": "t4-2", "t4-2": "t4-1"}[lost]
        assert (tmp_path / "trail").read_text(encoding="utf-8") == f"{other}\n"
        lab.start_node(lost)

        def is_back() -> bool:
            return bursar.plane.query_state(lambda state, _now: lost in state.pool_of_node).result(
                10
            )

        until("the node is back", is_back, 60)
        bursar.submit(8, RunSpec(run=f'echo "$BURSAR_NODE" >> "{tmp_path}/both"; sleep 2'))
        until("all have run", lambda: bursar.counts() == {JobState.SUCCEEDED: 9}, 60)
        assert set((tmp_path / "both").read_text(encoding="utf-8").split()) == {"t4-1", "t4-2"}


def test_a_control_plane_that_is_replaced_finds_its_jobs(tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f'echo ran >> "{tmp_path}/trail"; while [ ! -e "{go}" ]; do sleep 0.1; done'
    with own_lab(PLAN) as lab:
        with driven(lab, tmp_path / "state", ("t4-1", "t4-2")) as bursar:
            bursar.submit(12, RunSpec(run=script))
            until("eight run", lambda: bursar.counts().get(JobState.RUNNING) == 8)
        lab.kill("slurmctld")
        time.sleep(1.0)
        go.touch()
        lab.start_controller()
        with driven(lab, tmp_path / "state", ("t4-1", "t4-2")) as bursar:

            def all_over() -> bool:
                resume_drained(lab)
                return bursar.counts() == {JobState.SUCCEEDED: 12}

            until("all are over", all_over, 90)
    assert (tmp_path / "trail").read_text(encoding="utf-8") == "ran\n" * 12

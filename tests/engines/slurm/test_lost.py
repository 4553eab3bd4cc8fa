"""Nodes that lose power, a replaced control plane, and the removal of a lab."""

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


def processes_using(folder: Path) -> list[str]:
    """Processes that have this folder in their arguments, or a file open in it."""
    processes = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and int(entry) != os.getpid():
            try:
                arguments = (
                    Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                )
                files = [
                    os.readlink(f"/proc/{entry}/fd/{fd}") for fd in os.listdir(f"/proc/{entry}/fd")
                ]
            except OSError:
                continue
            if str(folder) in arguments or any(file.startswith(f"{folder}/") for file in files):
                processes.append(f"{entry}: {arguments}")
    return processes


def until_over(bursar: Driven, lab: Lab, timeout_seconds: float) -> None:
    """Wait for all jobs; on timeout, fail with the state of Bursar and Slurm."""
    try:
        until("all jobs are over", lambda: set(bursar.counts()) <= OVER, timeout_seconds)
    except AssertionError as error:
        details = [str(error), str(bursar.counts()), str(bursar.plane.health()), str(lab.status())]
        for kind in ("node", "job"):
            with contextlib.suppress(EngineFault):
                details.append(lab.run("scontrol", "-o", "show", kind, timeout_seconds=10))
        details.append((lab.folder / "log" / "slurmctld.log").read_text(encoding="utf-8")[-3_000:])
        raise AssertionError("\n".join(details)) from error


def test_a_stopped_lab_leaves_no_process_and_no_file() -> None:
    lab = Lab(Path(tempfile.mkdtemp(prefix="bursar-slurm-")), LabPlan(nodes=t4_nodes(2)))
    lab.start()
    stubborn = "trap '' TERM; while :; do sleep 0.1; done"
    lab.run("sbatch", "-o", "/dev/null", "--wrap", stubborn)
    until("the job runs", lambda: "RUNNING" in lab.run("squeue", "-h", "-o", "%T"))
    pids = [pid for pid in lab.status().values() if pid]
    assert len(pids) == len(lab.status()) and processes_using(lab.folder)
    lab.stop()
    assert processes_using(lab.folder) == []
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


def test_a_new_control_plane_takes_over_the_jobs_of_the_last(tmp_path: Path) -> None:
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

            def all_succeeded() -> bool:
                resume_drained(lab)
                return bursar.counts() == {JobState.SUCCEEDED: 12}

            until("all jobs succeed", all_succeeded, 90)
    assert (tmp_path / "trail").read_text(encoding="utf-8") == "ran\n" * 12

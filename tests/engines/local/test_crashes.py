"""kill -9 at random times under load: no job is lost and none runs twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bursar.engines.local.supervisor.proc import all_processes
from tests.conformance.engine_harness import LocalHarness
from tests.engines.local.crash_control_plane import Journal, code_of, tasks_of
from tests.seeds import first_always

ROOT = Path(__file__).parents[3]
JOBS = 60
KILLS = 25


def control_plane(harness: LocalHarness, folder: Path) -> subprocess.Popen[bytes]:
    words = [harness.state, folder / "journal", folder / "runs", JOBS]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engines.local.crash_control_plane", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )


def pids_named(harness: LocalHarness, name: str) -> list[int]:
    """Supervisors or attempt processes of this harness, by process name and by folder."""
    pids = []
    for process in all_processes():
        try:
            comm = Path(f"/proc/{process.pid}/comm").read_text().strip()
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if comm == name and str(harness.state).encode() in words:
            pids.append(process.pid)
    return sorted(pids)


def kill_any(pids: list[int], chance: random.Random) -> bool:
    if not pids:
        return False
    try:
        os.kill(chance.choice(pids), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def outcomes(folder: Path) -> tuple[Journal, dict[str, list[str]]]:
    """The journal of the control plane, and the ranks that ran of each job."""
    journal = Journal(folder / "journal")
    ran = {file.name: sorted(file.read_text().split()) for file in (folder / "runs").iterdir()}
    return journal, ran


@pytest.mark.parametrize("seed", first_always(1, [1, 2]))
def test_a_control_plane_killed_at_any_time_loses_no_job_and_runs_none_twice(
    harness: LocalHarness, tmp_path: Path, seed: int
) -> None:
    (tmp_path / "runs").mkdir()
    chance = random.Random(seed)
    process = control_plane(harness, tmp_path)
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.35))
        process.kill()
        process.wait()
        process = control_plane(harness, tmp_path)
    assert process.wait(timeout=60) == 0
    journal, ran = outcomes(tmp_path)
    assert sorted(journal.ended) == sorted(journal.assigned) and len(journal.ended) == JOBS
    for job_id, ends in journal.ended.items():
        assert len(ends) == 1 and ends[0].split()[0] == str(code_of(job_id)), (seed, job_id, ends)
        assert ran[job_id] == ["0", "1"][: tasks_of(job_id)], (seed, job_id)


@pytest.mark.parametrize("seed", first_always(1, [3, 4]))
def test_no_job_runs_twice_when_supervisors_and_attempt_processes_are_killed(
    harness: LocalHarness, tmp_path: Path, seed: int
) -> None:
    (tmp_path / "runs").mkdir()
    chance = random.Random(seed)
    process = control_plane(harness, tmp_path)
    killed = {"bursar-superv": 0, "bursar-attempt": 0}
    while process.poll() is None:
        time.sleep(chance.uniform(0.0, 0.3))
        name = chance.choice(sorted(name for name in killed if not killed[name]) or sorted(killed))
        killed[name] += kill_any(pids_named(harness, name), chance)
        if chance.random() < 0.1:
            process.kill()
            process.wait()
            process = control_plane(harness, tmp_path)
    assert process.returncode == 0
    assert min(killed.values()) > 0, (seed, killed)
    journal, ran = outcomes(tmp_path)
    assert sorted(journal.ended) == sorted(journal.assigned) and len(journal.ended) == JOBS
    for job_id, ends in journal.ended.items():
        assert len(ends) == 1, (seed, job_id, ends)
        assert len(ran.get(job_id, ())) == len(set(ran.get(job_id, ()))), (seed, job_id)
        # A kill may also hit a task that has been forked but has not executed its program yet.
        if not ends[0].startswith("None"):
            assert ends[0].split()[0] == str(code_of(job_id)), (seed, job_id, ends)
            assert ran[job_id] == ["0", "1"][: tasks_of(job_id)], (seed, job_id)

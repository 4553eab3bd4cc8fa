"""kill -9 at moments drawn from a seed, under load: nothing is lost, nothing runs twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bursar.engines.local.supervisor.proc import everything
from tests.conformance.engine_stands import LocalStand
from tests.engines.local.controlling import Journal, code_of, tasks_of
from tests.seeds import first_always

ROOT = Path(__file__).parents[3]
JOBS = 60
KILLS = 25


def control_plane(stand: LocalStand, folder: Path) -> subprocess.Popen[bytes]:
    words = [stand.state, folder / "journal", folder / "runs", JOBS]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engines.local.controlling", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )


def named(stand: LocalStand, name: str) -> list[int]:
    """Wardens or keepers of this stand, found as an administrator would: by name and by folder."""
    found = []
    for process in everything():
        try:
            comm = Path(f"/proc/{process.pid}/comm").read_text().strip()
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if comm == name and str(stand.state).encode() in words:
            found.append(process.pid)
    return sorted(found)


def kill_any(pids: list[int], chance: random.Random) -> bool:
    if not pids:
        return False
    try:
        os.kill(chance.choice(pids), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def outcomes(folder: Path) -> tuple[Journal, dict[str, list[str]]]:
    """What the control plane wrote down, and the ranks that ran of each job."""
    journal = Journal(folder / "journal")
    ran = {file.name: sorted(file.read_text().split()) for file in (folder / "runs").iterdir()}
    return journal, ran


@pytest.mark.parametrize("seed", first_always(1, [1, 2]))
def test_a_control_plane_killed_at_any_moment_loses_and_doubles_nothing(
    stand: LocalStand, tmp_path: Path, seed: int
) -> None:
    (tmp_path / "runs").mkdir()
    chance = random.Random(seed)
    process = control_plane(stand, tmp_path)
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.35))
        process.kill()
        process.wait()
        process = control_plane(stand, tmp_path)
    assert process.wait(timeout=60) == 0
    journal, ran = outcomes(tmp_path)
    assert sorted(journal.ended) == sorted(journal.assigned) and len(journal.ended) == JOBS
    for job_id, ends in journal.ended.items():
        assert len(ends) == 1 and ends[0].split()[0] == str(code_of(job_id)), (seed, job_id, ends)
        assert ran[job_id] == ["0", "1"][: tasks_of(job_id)], (seed, job_id)


@pytest.mark.parametrize("seed", first_always(1, [3, 4]))
def test_wardens_and_keepers_killed_at_any_moment_double_nothing(
    stand: LocalStand, tmp_path: Path, seed: int
) -> None:
    (tmp_path / "runs").mkdir()
    chance = random.Random(seed)
    process = control_plane(stand, tmp_path)
    killed = {"bursar-warden": 0, "bursar-keeper": 0}
    while process.poll() is None:
        time.sleep(chance.uniform(0.0, 0.3))
        name = chance.choice(sorted(name for name in killed if not killed[name]) or sorted(killed))
        killed[name] += kill_any(named(stand, name), chance)
        if chance.random() < 0.1:
            process.kill()
            process.wait()
            process = control_plane(stand, tmp_path)
    assert process.returncode == 0
    assert min(killed.values()) > 0, (seed, killed)
    journal, ran = outcomes(tmp_path)
    assert sorted(journal.ended) == sorted(journal.assigned) and len(journal.ended) == JOBS
    for job_id, ends in journal.ended.items():
        assert len(ends) == 1, (seed, job_id, ends)
        assert len(ran.get(job_id, ())) == len(set(ran.get(job_id, ()))), (seed, job_id)
        # A kill may also hit a task in the moment in which it still looks like its keeper.
        if not ends[0].startswith("None"):
            assert ends[0].split()[0] == str(code_of(job_id)), (seed, job_id, ends)
            assert ran[job_id] == ["0", "1"][: tasks_of(job_id)], (seed, job_id)

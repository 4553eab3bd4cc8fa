"""Tasks in child processes, when one is rejected or their parent is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bursar.model.errors import UserError
from bursar.simulate.parallel_tasks import Watch, run_in_parallel
from tests.control.harness import until
from tests.engines.local.inspect_processes import is_running

LONG_SECONDS = 20.0


def reject_or_sleep(file: Path, _watch: Watch) -> None:
    """Writes the process id and sleeps; the task of the file named ``rejected`` waits for the other."""
    if file.name == "rejected":
        until(lambda: bool(pids(file.parent)), "the other task runs")
        raise UserError("this task is rejected.", fix="Change it.", code="wrong-value")
    sleep(file, _watch)


def sleep(file: Path, _watch: Watch) -> None:
    partial = file.with_suffix(".partial")
    partial.write_text(str(os.getpid()))
    partial.rename(file.with_suffix(".pid"))
    time.sleep(LONG_SECONDS)
    file.with_suffix(".ended").touch()


def pids(folder: Path) -> list[int]:
    return [int(one.read_text()) for one in folder.glob("*.pid")]


def keep_going(_progress: object) -> bool:
    return False


def test_a_rejected_task_ends_the_others(tmp_path: Path) -> None:
    tasks = [tmp_path / "sleeps", tmp_path / "rejected"]
    with pytest.raises(UserError, match="this task is rejected"):
        run_in_parallel(reject_or_sleep, tasks, keep_going, processes=2)
    (pid,) = pids(tmp_path)
    assert not is_running(pid)
    assert not [*tmp_path.glob("*.ended")], "it was ended, not awaited"


def test_no_task_outlives_a_killed_parent(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from bursar.simulate.parallel_tasks import run_in_parallel\n"
        "from tests.simulate.test_parallel_tasks import keep_going, sleep\n"
        "folder = Path(sys.argv[1])\n"
        "run_in_parallel(sleep, [folder / 'a', folder / 'b'], keep_going, processes=2)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    until(lambda: len(pids(tmp_path)) == 2, "both tasks run")
    parent.kill()
    parent.wait()
    until(lambda: not any(map(is_running, pids(tmp_path))), "both tasks have ended")

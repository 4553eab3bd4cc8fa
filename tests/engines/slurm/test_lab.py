"""Behaviour of a lab that needs no Slurm: log truncation, and repeated commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conformance.engine_harness import until
from tests.support.slurm_lab import daemons
from tests.support.slurm_lab.__main__ import main
from tests.support.slurm_lab.lab import LOG_TRUNCATION


def test_long_logs_are_truncated_while_they_are_open(tmp_path: Path) -> None:
    log, short = tmp_path / "slurmd.n 1.log", tmp_path / "slurmctld.log"
    short.write_text("short\n", encoding="utf-8")
    with log.open("a", encoding="utf-8") as writer:
        writer.write("x" * 5_000 + "last\n")
        writer.flush()
        argv = ["bash", "-c", LOG_TRUNCATION, "logs", str(tmp_path), "0.05", "2", "100"]
        truncation = subprocess.Popen(argv)
        try:
            until("the log is truncated", lambda: log.stat().st_size == 0)
            writer.write("more\n")
        finally:
            truncation.kill()
            truncation.wait()
    assert log.read_text(encoding="utf-8") == "more\n"
    retained = (tmp_path / "slurmd.n 1.log.old").read_text(encoding="utf-8")
    assert (len(retained), retained.endswith("last\n")) == (100, True)
    assert short.read_text(encoding="utf-8") == "short\n"


SCRIPT = "trap 'echo signalled >>$0' HUP TERM CHLD; sleep 300 & echo ready >>$0; wait"
STEP = """import subprocess, sys
sys.exit(subprocess.Popen(["bash", "-c", sys.argv[1], sys.argv[2]], process_group=0).wait())"""


def test_processes_of_a_machine_without_power_receive_no_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "output"
    step = subprocess.Popen([sys.executable, "-c", STEP, SCRIPT, output], start_new_session=True)
    until("its script waits", lambda: output.exists() and output.read_text() == "ready\n")
    kill = os.kill

    def kill_slowly(pid: int, number: int) -> None:
        kill(pid, number)
        time.sleep(0.1)

    monkeypatch.setattr(daemons.os, "kill", kill_slowly)
    tree = [step.pid, *daemons.descendants([step.pid])]
    assert len(tree) == 3
    daemons.kill_simultaneously(lambda: tree)
    assert step.wait(10) == -signal.SIGKILL
    until("all are gone", lambda: not any(map(daemons.start_time, tree)))
    assert output.read_text(encoding="utf-8") == "ready\n"


def test_a_lab_that_was_never_started_has_no_status_and_can_be_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "lab"
    assert main(["status", "--folder", str(folder)]) == 1
    assert "start one with 'make slurm-lab'" in capsys.readouterr().out
    for _ in range(2):
        assert main(["stop", "--folder", str(folder)]) == 0
        assert "nothing to stop" in capsys.readouterr().out


def test_a_folder_without_a_lab_is_not_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").touch()
    assert main(["stop", "--folder", str(tmp_path)]) == 1
    assert "holds no Slurm lab" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").exists()


def test_a_lab_with_dead_processes_is_not_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "munged.process").write_text('{"pid": 1, "start": 0}', encoding="utf-8")
    assert main(["start", "--folder", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "1 of 1 processes of the lab in" in error and "are dead (munged)" in error

"""Runs ``bursar`` in this process or in a new one, and writes small inputs for it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from bursar.cli import main as cli

ROOT = Path(__file__).parents[2]
BURSAR = [sys.executable, "-m", "bursar.cli.main"]

FLEET = """
clusters: {main: {}}
pools:
  a100:
    market: owned
    gpu_model: A100-80GB
    gpus_per_node: 8
    cpus: 96
    memory_gib: 1024
    usd_per_node_hour: 16
    nodes: NODES
"""


def environment() -> dict[str, str]:
    """An environment with random hash order."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "random"}


def bursar(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which saves the import time."""
    words = [str(word) for word in arguments]
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = cli.main(words)
        except SystemExit as exit:
            code = int(exit.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def bursar_alone(
    *arguments: str | Path, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a new process with its own hash order."""
    return subprocess.run(
        [*BURSAR, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=cwd,
        timeout=120,
        check=False,
    )


def write_fleet(folder: Path, nodes: int = 2, name: str = "fleet.yaml") -> Path:
    path = folder / name
    path.write_text(FLEET.replace("NODES", str(nodes)), encoding="utf-8")
    return path


def write_trace(folder: Path, jobs: int = 40, name: str = "trace.csv") -> Path:
    """Two teams; every tenth job is a gang of two nodes, and it is busier than two nodes can bear."""
    rows = ["job_id,submit_s,run_s,gpus,team,user"]
    for number in range(jobs):
        gpus = 16 if number % 10 == 9 else 1 + number % 4
        team = "red" if number % 3 else "blue"
        rows.append(
            f"j{number:06},{60 * number},{600 + 37 * number % 900},{gpus},{team},u{number % 5}"
        )
    path = folder / name
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def without_cycle_times(text: str) -> list[str]:
    """The only numbers that differ from run to run are how fast the machine was, and so column widths."""
    lines = [line for line in text.splitlines() if not line.startswith("cycle time")]
    return [" ".join(line.split()) for line in lines]


def expect_refusal(
    ran: subprocess.CompletedProcess[str], problem: str, fix: str, code: int = 1
) -> None:
    """Two lines on standard error, nothing else anywhere."""
    assert ran.stdout == ""
    lines = ran.stderr.splitlines()
    assert ran.returncode == code, ran.stderr
    assert len(lines) == 2, ran.stderr
    assert lines[0].startswith("error: ") and problem in lines[0], ran.stderr
    assert lines[1].startswith("fix: ") and fix in lines[1], ran.stderr

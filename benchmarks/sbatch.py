"""(g) The same short jobs through Slurm on this machine: a running cluster, or a test cluster.

If Slurm is not installed, the row is "not measured".
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figure import Figure
from bursar.model.errors import EngineFault, UserError
from tests.support.slurm_lab import Lab, LabPlan
from tests.support.slurm_lab.lab import missing_programs

JOBS = int(os.environ.get("BURSAR_BENCH_SBATCH_JOBS", "400"))
TIMEOUT_SECONDS = 300.0
RELEASE_BATCH = 100
REFERENCE = "Slurm 22.05: 65 submits/s, 35-42 completed/s"


def figures() -> list[Figure]:
    """``sbatch`` calls per second, and ``true`` jobs completed per second after their release."""
    missing = missing_programs()
    if missing and not _is_up(os.environ):
        reason = f"not measured: {', '.join(missing[:3])} not installed"
        return [_figure("sbatch", reason)]
    with tempfile.TemporaryDirectory(prefix="bursar-sbatch-") as path:
        folder = Path(path)
        folder.chmod(0o755)  # Slurm's database runs as another user.
        try:
            with _slurm(folder) as environment:
                submitted, completed = _measure(folder, environment)
        except (UserError, EngineFault) as problem:
            return [_figure("sbatch", f"not measured: {problem}")]
    return [
        _figure(f"sbatch, {JOBS:,} jobs submitted sequentially", f"{submitted:,.0f}/s"),
        _figure(f"Slurm, {JOBS:,} 'true' jobs, completed per second", f"{completed:,.0f}/s"),
    ]


def _figure(what: str, measured: str) -> Figure:
    return Figure(scenario="(g) Slurm", what=what, measured=measured, reference=REFERENCE)


@contextmanager
def _slurm(folder: Path) -> Iterator[Mapping[str, str]]:
    """Environment variables of a Slurm cluster whose controller responds."""
    if _is_up(os.environ):
        yield os.environ
        return
    plan = LabPlan(users=(), rest=False)
    lab = Lab(folder / "lab", plan)
    lab.start()
    try:
        yield lab.environment()
    finally:
        lab.stop()


def _is_up(environment: Mapping[str, str]) -> bool:
    program = shutil.which("scontrol")
    if program is None:
        return False
    response = subprocess.run(
        [program, "ping"], env=dict(environment), capture_output=True, text=True
    )
    return response.returncode == 0 and " UP" in response.stdout


def _measure(folder: Path, environment: Mapping[str, str]) -> tuple[float, float]:
    """Submit held jobs, then release them, so that the two rates are measured separately."""
    script = folder / "true.sh"
    script.write_text("#!/bin/sh\ntrue\n", encoding="utf-8")
    command = ["sbatch", "--parsable", "--hold", "--output=/dev/null", f"--chdir={folder}"]
    began = time.monotonic()
    ids = [_run([*command, str(script)], environment).strip() for _ in range(JOBS)]
    submitted = JOBS / (time.monotonic() - began)
    began = time.monotonic()
    for first in range(0, JOBS, RELEASE_BATCH):
        _run(["scontrol", "release", ",".join(ids[first : first + RELEASE_BATCH])], environment)
    while _has_unfinished(set(ids), environment):
        if time.monotonic() - began > TIMEOUT_SECONDS:
            raise TimeoutError(f"Slurm's jobs took more than {TIMEOUT_SECONDS:.0f} s")
        time.sleep(0.1)
    return submitted, JOBS / (time.monotonic() - began)


def _has_unfinished(ids: set[str], environment: Mapping[str, str]) -> bool:
    listed = _run(["squeue", "--noheader", "--format=%i", "--states=PD,R,CG"], environment)
    return not ids.isdisjoint(listed.split())


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    process = subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, check=True, timeout=60
    )
    return process.stdout


if __name__ == "__main__":
    from benchmarks.figure import write_table

    sys.stdout.write(f"{write_table(figures())}\n")

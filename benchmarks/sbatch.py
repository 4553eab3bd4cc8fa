"""(g) The same short jobs through Slurm on the same machine: the one that is up, or a lab of our own.

Without Slurm's programs there is nothing to compare with, and the table says so.
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
MOST_SECONDS = 300.0
RELEASED_AT_ONCE = 100
REFERENCE = "Slurm 22.05: 65 submits/s, 35-42 completed/s"


def figures() -> list[Figure]:
    """``sbatch`` calls a second, and ``true`` jobs completed a second once they may run."""
    absent = missing_programs()
    if absent and not _is_up(os.environ):
        told = f"not measured: {', '.join(absent[:3])} not installed"
        return [_figure("sbatch beside ours", told)]
    with tempfile.TemporaryDirectory(prefix="bursar-sbatch-") as made:
        folder = Path(made)
        folder.chmod(0o755)  # Slurm's database runs as another user.
        try:
            with _slurm(folder) as environment:
                submitted, completed = _measure(folder, environment)
        except (UserError, EngineFault) as problem:
            return [_figure("sbatch beside ours", f"not measured: {problem}")]
    return [
        _figure(f"sbatch, {JOBS:,} jobs one after the other", f"{submitted:,.0f}/s"),
        _figure(f"Slurm, {JOBS:,} 'true' jobs, completed a second", f"{completed:,.0f}/s"),
    ]


def _figure(what: str, measured: str) -> Figure:
    return Figure(scenario="(g) Slurm", what=what, measured=measured, reference=REFERENCE)


@contextmanager
def _slurm(folder: Path) -> Iterator[Mapping[str, str]]:
    """The environment in which Slurm's commands find a controller that answers."""
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
    asked = subprocess.run([program, "ping"], env=dict(environment), capture_output=True, text=True)
    return asked.returncode == 0 and " UP" in asked.stdout


def _measure(folder: Path, environment: Mapping[str, str]) -> tuple[float, float]:
    """Held jobs are submitted first, so that neither figure contains the other."""
    script = folder / "true.sh"
    script.write_text("#!/bin/sh\ntrue\n", encoding="utf-8")
    words = ["sbatch", "--parsable", "--hold", "--output=/dev/null", f"--chdir={folder}"]
    began = time.monotonic()
    ids = [_run([*words, str(script)], environment).strip() for _ in range(JOBS)]
    submitted = JOBS / (time.monotonic() - began)
    began = time.monotonic()
    for first in range(0, JOBS, RELEASED_AT_ONCE):
        _run(["scontrol", "release", ",".join(ids[first : first + RELEASED_AT_ONCE])], environment)
    while _left(set(ids), environment):
        if time.monotonic() - began > MOST_SECONDS:
            raise TimeoutError(f"Slurm's jobs took more than {MOST_SECONDS:.0f} s")
        time.sleep(0.1)
    return submitted, JOBS / (time.monotonic() - began)


def _left(ids: set[str], environment: Mapping[str, str]) -> bool:
    listed = _run(["squeue", "--noheader", "--format=%i", "--states=PD,R,CG"], environment)
    return not ids.isdisjoint(listed.split())


def _run(words: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        words, env=dict(environment), capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


if __name__ == "__main__":
    from benchmarks.figure import write_table

    sys.stdout.write(f"{write_table(figures())}\n")

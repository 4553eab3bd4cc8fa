"""Runs one of the crash programs of this folder in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_program(module: str, folder: Path, seed: int, kills: int) -> dict[str, int]:
    """Runs ``tests.crash.MODULE``; returns how many processes were killed and how many finished."""
    arguments = [f"tests.crash.{module}", str(folder), str(seed), str(kills)]
    run = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    again = f"to repeat: python -m tests.crash.{module} FOLDER {seed} {kills}"
    assert run.returncode == 0, f"{run.stderr}\n{again}"
    ended: dict[str, int] = json.loads(run.stdout)
    return ended

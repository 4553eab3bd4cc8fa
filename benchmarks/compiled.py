"""A copy of the package whose hot parts are compiled to C by mypyc: ``python -m benchmarks.compiled FOLDER``.

The profile of a run is flat: some two hundred small functions for each job, none of which does anything
needlessly. What is left is the interpreter, and mypyc, which comes with mypy, takes most of that away from
code that is typed throughout. The sources stay as they are, and so do the decisions. Whoever puts the
folder in front of the path uses the copy; the package itself needs no compiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
HOT = {
    "core": (
        "alarms attempt_limits charge charge_book claims cycle device draft eviction experience finished "
        "gang journal levels lifecycle line line_book mix node node_index order orders placement pool quota "
        "reserve search shape shares state takeover usage why"
    ),
    "simulate": "clock from_trace loop world",
    "simulate/readers": "draft philly table values",
}
"""What a start or an end of a job passes through, by part. The rest is seldom asked, or gains nothing."""


def compile_into(folder: Path) -> None:
    """Copy the package and compile the hot modules of the copy in place."""
    package = folder / "bursar"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(SOURCE / "bursar", package, ignore=shutil.ignore_patterns("__pycache__"))
    modules = [f"bursar/{part}/{name}.py" for part in sorted(HOT) for name in HOT[part].split()]
    quietly = {"MYPYC_OPT_LEVEL": "2", "MYPYC_DEBUG_LEVEL": "0"}
    command = [sys.executable, "-m", "mypyc", "--ignore-missing-imports", *modules]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | quietly, capture_output=True, text=True
    )
    shutil.rmtree(folder / "build", ignore_errors=True)
    if done.returncode:
        shutil.rmtree(package, ignore_errors=True)
        raise SystemExit(f"error: mypyc failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    compile_into(target)
    sys.stdout.write(f"put it in front of the path: PYTHONPATH={target}\n")

"""(e), (f) and (g) again, with the hot parts of the core compiled to C as ``make compiled`` builds them.

The compiled package is another one than this process has loaded, so a process of its own measures it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import openb, replay
from benchmarks.figure import Figure
from bursar.core import cycle

ROOT = Path(__file__).parents[1]
BUILT = ROOT / "build" / "compiled"


def figures() -> list[Figure]:
    """What ``replay`` and ``openb`` measure, of the compiled package; or that there is none."""
    if not (BUILT / "bursar").exists():
        return [
            Figure(
                scenario="(e) compiled",
                what="not measured",
                measured="-",
                reference="`make compiled` builds it, where there is a C compiler",
            )
        ]
    path = os.pathsep.join((str(BUILT), str(ROOT)))
    command = [sys.executable, "-m", "benchmarks.compiled"]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": path},
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [Figure(**one) for one in json.loads(done.stdout)]


def _measure() -> list[dict[str, str]]:
    if not is_compiled():
        raise RuntimeError(f"{cycle.__file__} is not compiled")
    rows = [asdict(one) for one in replay.figures() + openb.figures()]
    return [row | {"what": f"compiled: {row['what']}"} for row in rows]


def is_compiled() -> bool:
    """Whether this process has loaded the compiled package."""
    return Path(str(cycle.__file__)).suffix == ".so"


if __name__ == "__main__":
    json.dump(_measure(), sys.stdout)

"""(e), (f) and (g) with the core's hot modules compiled to C by ``make compiled``.

This process has already loaded the uncompiled package, so a separate process measures the compiled one.
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
    """The figures of ``replay`` and ``openb`` for the compiled package, if it was built."""
    if not (BUILT / "bursar").exists():
        return [
            Figure(
                scenario="(e) compiled",
                what="not measured",
                measured="-",
                reference="run `make compiled` (needs a C compiler)",
            )
        ]
    path = os.pathsep.join((str(BUILT), str(ROOT)))
    command = [sys.executable, "-m", "benchmarks.compiled"]
    result = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": path},
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [Figure(**figure) for figure in json.loads(result.stdout)]


def _measure() -> list[dict[str, str]]:
    if not is_compiled():
        raise RuntimeError(f"{cycle.__file__} is not compiled")
    rows = [asdict(figure) for figure in replay.figures() + openb.figures()]
    return [row | {"what": f"compiled: {row['what']}"} for row in rows]


def is_compiled() -> bool:
    """Whether this process has loaded the compiled package."""
    return Path(str(cycle.__file__)).suffix == ".so"


if __name__ == "__main__":
    json.dump(_measure(), sys.stdout)

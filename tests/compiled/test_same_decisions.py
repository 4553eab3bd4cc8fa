"""The compiled package makes the same decisions, and passes the tests of the compiled modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compiled.digest import digests

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "compiled-unoptimised"

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]


def build() -> None:
    """A minute of one processor, the first time: other tests run meanwhile.

    What decides is the C that mypyc writes. What the C compiler makes of it when it takes its time is
    measured by ``make bench``, and would take this test another minute.
    """
    where = f"COMPILED={BUILT.relative_to(ROOT)}"
    asked = ["make", "--no-print-directory", "compiled", where, "OPTIMISE=0"]
    plain = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    done = subprocess.run(asked, cwd=ROOT, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if not (BUILT / "bursar").exists():
        pytest.skip(done.stdout)


def in_the_compiled_package(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(BUILT), str(ROOT)))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_what_is_compiled_decides_the_same() -> None:
    """One test, so that two workers never build at once: whole runs, then the parts' own tests."""
    build()
    done = in_the_compiled_package("-m", "tests.compiled.digest")
    assert done.returncode == 0, done.stderr
    loaded, *rows = done.stdout.splitlines()
    assert loaded.endswith(".so") and loaded.startswith(str(BUILT))
    assert dict(row.split() for row in rows) == digests()
    asked = ("-m", "pytest", "-n", "0", "-o", "pythonpath=.", "-p", "no:cacheprovider")
    parts = ("core", "golden", "model", "simulate/metrics", "simulate/workload/test_generate.py")
    done = in_the_compiled_package(*asked, *(f"tests/{part}" for part in parts))
    assert done.returncode == 0, done.stdout[-3_000:]

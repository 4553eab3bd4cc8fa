"""The compiled package decides what the plain one decides, and passes the core's own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compiled.digest import digests

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "compiled"

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not (BUILT / "bursar").exists(),
        reason="build/compiled is not there; 'make compiled' builds it where there is a C compiler",
    ),
]


def in_the_compiled_package(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(BUILT), str(ROOT)))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_whole_runs_are_the_same_to_the_last_event() -> None:
    done = in_the_compiled_package("-m", "tests.compiled.digest")
    assert done.returncode == 0, done.stderr
    loaded, *rows = done.stdout.splitlines()
    assert loaded.endswith(".so") and loaded.startswith(str(BUILT))
    assert dict(row.split() for row in rows) == digests()


def test_the_tests_of_the_core_pass() -> None:
    asked = ("-m", "pytest", "-n", "0", "-o", "pythonpath=.", "-p", "no:cacheprovider")
    done = in_the_compiled_package(*asked, "tests/core", "tests/golden")
    assert done.returncode == 0, done.stdout[-3_000:]

"""What ``make`` would do: to run takes few packages, and whoever only runs does not wait for the others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def steps_of(target: str) -> str:
    """Every command of a target on a machine where nothing was made yet; none of them is run."""
    asked = ["make", "--dry-run", "--always-make", target]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    return found.stdout


def test_running_installs_what_runs_and_not_what_tests() -> None:
    steps = steps_of("run")
    assert "-e '.'" in steps
    assert "[dev]" not in steps


@pytest.mark.parametrize("target", ["test", "check", "bench", "format"])
def test_testing_adds_its_packages_to_the_same_environment(target: str) -> None:
    steps = steps_of(target)
    assert steps.index("-e '.'") < steps.index("-e '.[dev]'")

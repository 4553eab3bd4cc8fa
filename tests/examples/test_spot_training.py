"""The example on virtual spot nodes: real training, whose nodes are taken away."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "spot-training"


@pytest.mark.real
def test_an_interrupted_training_has_the_same_result() -> None:
    """Six interruptions at seeded steps, half of them by kill -9; ``survive.py`` checks the results."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: pip install torch==2.13.0")
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE / "survive.py"), "--interruptions", "6", "--seed", "11"],
        env={**os.environ, "BURSAR_TOKEN": "", "BURSAR_SERVER": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert sum("kill -9" in line for line in lines) == 3
    assert sum("s notice" in line for line in lines) == 3
    assert "7 attempts, 0 failures, 0 preemptions" in ran.stdout
    assert lines[-2:] == ["the weights are equal", "no saved step was lost"]

"""The example, interrupted at random times, ends with exactly the same weights."""

from __future__ import annotations

import importlib.util
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bursar.sdk import PREEMPTED_EXIT
from tests.sdk.writing import ROOT, environment

pytestmark = pytest.mark.real
STEPS, INTERRUPTIONS = 240, 6


def start(folder: Path) -> subprocess.Popen[str]:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: pip install torch==2.13.0")
    env = environment(CHECKPOINT_DIR=str(folder), STEPS=str(STEPS), SAVE_EVERY="10")
    return subprocess.Popen(
        [sys.executable, "-u", str(ROOT / "examples" / "spot-training" / "train.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


def step_in(line: str) -> int:
    """Of "resuming from step 30" and of "saved step 40: loss 1.2"; 0 of "starting"."""
    words = line.replace(":", "").split()
    return int(words[words.index("step") + 1]) if "step" in words else 0


def interrupt(folder: Path, chance: random.Random, saved: int) -> tuple[int, int]:
    """One run: the last saved step and the exit code. No saved step is repeated."""
    job = start(folder)
    assert job.stdout is not None
    first = job.stdout.readline()
    assert first, job.communicate()[1]
    assert step_in(first) >= saved, first
    saved = step_in(first)
    for _ in range(chance.randrange(0, 3)):
        saved = step_in(job.stdout.readline())
    time.sleep(chance.random() * 0.1)
    job.send_signal(chance.choice([signal.SIGTERM, signal.SIGKILL]))
    rest = job.communicate(timeout=120)[0].splitlines()
    steps = [step_in(line) for line in rest if line.startswith("saved step")]
    return max([saved, *steps]), job.returncode


def test_interruptions_do_not_change_the_weights(tmp_path: Path) -> None:
    complete = start(tmp_path / "complete")
    steps, errors = complete.communicate(timeout=300)
    assert complete.returncode == 0, errors
    chance, saved = random.Random(11), 0
    codes = []
    for _ in range(INTERRUPTIONS):
        saved, code = interrupt(tmp_path / "interrupted", chance, saved)
        codes.append(code)
    assert set(codes) == {PREEMPTED_EXIT, -signal.SIGKILL}
    assert saved < STEPS
    last = start(tmp_path / "interrupted")
    again, errors = last.communicate(timeout=300)
    assert last.returncode == 0, errors
    assert step_in(again.splitlines()[0]) >= saved
    assert again.splitlines()[-1].startswith("weights ")
    assert again.splitlines()[-2:] == steps.splitlines()[-2:]

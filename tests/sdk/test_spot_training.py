"""The example, for real: interrupted at random, it ends with exactly the same weights."""

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
    """Of "going on from step 30" and of "saved step 40: loss 1.2"; 0 of "starting"."""
    words = line.replace(":", "").split()
    return int(words[words.index("step") + 1]) if "step" in words else 0


def interrupt(folder: Path, chance: random.Random, safe: int) -> tuple[int, int]:
    """One life: how far it was safe, and how it ended. Nothing that was safe is done again."""
    job = start(folder)
    assert job.stdout is not None
    first = job.stdout.readline()
    assert first, job.communicate()[1]
    assert step_in(first) >= safe, first
    safe = step_in(first)
    for _ in range(chance.randrange(0, 3)):
        safe = step_in(job.stdout.readline())
    time.sleep(chance.random() * 0.1)
    job.send_signal(chance.choice([signal.SIGTERM, signal.SIGKILL]))
    rest = job.communicate(timeout=120)[0].splitlines()
    said = [step_in(line) for line in rest if line.startswith("saved step")]
    return max([safe, *said]), job.returncode


def test_the_same_weights_however_often_it_is_interrupted(tmp_path: Path) -> None:
    whole = start(tmp_path / "whole")
    said, wrong = whole.communicate(timeout=300)
    assert whole.returncode == 0, wrong
    chance, safe = random.Random(11), 0
    codes = []
    for _ in range(INTERRUPTIONS):
        safe, code = interrupt(tmp_path / "cut", chance, safe)
        codes.append(code)
    assert set(codes) == {PREEMPTED_EXIT, -signal.SIGKILL}
    assert safe < STEPS
    last = start(tmp_path / "cut")
    again, wrong = last.communicate(timeout=300)
    assert last.returncode == 0, wrong
    assert step_in(again.splitlines()[0]) >= safe
    assert again.splitlines()[-1].startswith("weights ")
    assert again.splitlines()[-2:] == said.splitlines()[-2:]

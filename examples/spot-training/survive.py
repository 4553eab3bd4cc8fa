"""Interrupts a training several times and shows that the result is the same.

Starts a control plane, submits ``job.yaml`` twice, and lets one of the two run without interruptions. It
takes the node of the other away at random steps, with notice or by kill -9. Then it compares the weights of
both, and the step from which each attempt resumed with the last saved one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bursar.client import Client

HERE = Path(__file__).resolve().parent
TIMEOUT_SECONDS = 300.0
NOTICE_SECONDS, ABSENCE_SECONDS = 5, 2


@dataclass(frozen=True)
class Attempt:
    """What one attempt printed: the step it resumed from, and the last one it saved."""

    resumed: int
    saved: int
    weights: str


@contextlib.contextmanager
def control_plane(state: Path) -> Iterator[Client]:
    """Runs ``bursar up`` on a free port, with this interpreter for its jobs."""
    command = [sys.executable, "-m", "bursar", "up", "--port", "0", "--state", str(state)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    log = state.parent / "up.log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [*command, "--fleet", str(HERE / "fleet.yaml")],
            stdout=file,
            stderr=file,
            env={**os.environ, "PATH": path},
        )

    def is_up() -> bool:
        if server.poll() is not None:
            raise SystemExit(f"the control plane did not start:\n{log.read_text()}")
        return "bursar leads at" in log.read_text()

    try:
        wait_until(is_up, "the control plane is up")
        token = (state / "admin-token").read_text().strip()
        address = json.loads((state / "server.json").read_text())["address"]
        with Client(address, token) as client:
            yield client
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


def wait_until(condition: Callable[[], object], description: str) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"timed out waiting until {description}")
        time.sleep(0.1)


def read_attempt(client: Client, job: str, number: int) -> Attempt:
    """Reads the output of one attempt so far."""
    resumed = saved = 0
    weights = ""
    for line in client.log_text(job, attempt=number, stream="stdout").splitlines():
        words = line.replace(":", "").split()
        if line.startswith("resuming from step"):
            resumed = int(words[-1])
        elif line.startswith("saved step"):
            saved = int(words[2])
        elif line.startswith("weights"):
            weights = words[1]
    return Attempt(resumed, saved, weights)


def attempts_of(client: Client, job: str) -> list[Attempt]:
    count = int(client.show(job)["attempt"])
    return [read_attempt(client, job, number) for number in range(1, count + 1)]


def interrupt_at(client: Client, job: str, step: int, kill: bool) -> None:
    """Takes the job's node away when it has saved a step, and waits for the next attempt."""
    wait_until(lambda: client.show(job)["attempt"], "the job has started")
    number = int(client.show(job)["attempt"])
    wait_until(
        lambda: read_attempt(client, job, number).saved >= step or client.show(job)["ended_at_ms"],
        f"step {step} is saved",
    )
    notice = 0 if kill else NOTICE_SECONDS
    client.interrupt(job, notice_seconds=notice, absence_seconds=ABSENCE_SECONDS)
    how = "kill -9" if kill else f"{NOTICE_SECONDS} s notice"
    print(f"after step {step:4}: {how}", flush=True)
    wait_until(lambda: int(client.show(job)["attempt"]) > number, "the next attempt has started")


def lost_no_saved_step(attempts: list[Attempt]) -> bool:
    """Whether each attempt resumed from the last saved step or a later one."""
    saved = 0
    for number, one in enumerate(attempts, start=1):
        print(f"attempt {number}: resumed from step {one.resumed:4}, saved up to {one.saved}")
        if one.resumed < saved:
            return False
        saved = max(saved, one.resumed, one.saved)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interruptions", type=int, default=6)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    points = sorted(chance.sample(range(10, options.steps // 2, 10), options.interruptions))
    kills = [number % 2 == 1 for number in range(options.interruptions)]
    chance.shuffle(kills)
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder, "state")) as client:
        envs = {"CHECKPOINT_DIR": f"{folder}/saved", "STEPS": options.steps, "SAVE_EVERY": 10}
        job_file = HERE / "job.yaml"
        undisturbed = client.submit(job_file, queue="training", envs=envs, name="undisturbed")
        interrupted = client.submit(job_file, queue="training", envs=envs, name="interrupted")
        for step, kill in zip(points, kills, strict=True):
            interrupt_at(client, interrupted.id, step, kill)
        ends = [undisturbed.wait(TIMEOUT_SECONDS), interrupted.wait(TIMEOUT_SECONDS)]
        attempts = attempts_of(client, interrupted.id)
        kept_all = lost_no_saved_step(attempts)
        weights = read_attempt(client, undisturbed.id, 1).weights, attempts[-1].weights
        shown = client.show(interrupted.id)
    print(f"undisturbed: {ends[0]}, weights {weights[0][:16]}")
    print(
        f"interrupted: {ends[1]}, weights {weights[1][:16]}, {shown['attempt']} attempts, "
        f"{shown['failures']} failures, {shown['preemptions']} preemptions"
    )
    same = bool(weights[0]) and weights[0] == weights[1]
    print("the weights are equal" if same else "the weights are NOT equal")
    print("no saved step was lost" if kept_all else "a saved step was LOST")
    was_interrupted = int(shown["attempt"]) == options.interruptions + 1 and not shown["failures"]
    return 0 if same and kept_all and was_interrupted else 1


if __name__ == "__main__":
    sys.exit(main())

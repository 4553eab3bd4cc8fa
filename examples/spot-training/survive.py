"""Interrupts a training again and again and shows that it ends as if nothing had happened.

Starts a control plane of its own, submits ``job.yaml`` twice, and lets one of the two run in peace. From
the other it takes its node away at steps that a seed chooses, announced or by kill -9. Then it compares
what the two have learnt, and from where each attempt went on with what had been saved before it.
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
PATIENCE_SECONDS = 300.0
NOTICE_SECONDS, AWAY_SECONDS = 5, 2


@dataclass(frozen=True)
class Attempt:
    """What one attempt printed: from where it went on, and what it saved."""

    began: int
    saved: int
    weights: str


@contextlib.contextmanager
def control_plane(state: Path) -> Iterator[Client]:
    """``bursar up`` on a port that is free, with this interpreter's programs for its jobs."""
    words = [sys.executable, "-m", "bursar", "up", "--port", "0", "--state", str(state)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    log = state.parent / "up.log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [*words, "--fleet", str(HERE / "fleet.yaml")],
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


def wait_until(what: Callable[[], object], told: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not what():
        if time.monotonic() > deadline:
            raise SystemExit(f"never came true: {told}")
        time.sleep(0.1)


def look(client: Client, job: str, number: int) -> Attempt:
    """One attempt, by what it printed so far."""
    began = saved = 0
    weights = ""
    for line in client.log_text(job, attempt=number, stream="stdout").splitlines():
        words = line.replace(":", "").split()
        if line.startswith("going on from step"):
            began = int(words[-1])
        elif line.startswith("saved step"):
            saved = int(words[2])
        elif line.startswith("weights"):
            weights = words[1]
    return Attempt(began, saved, weights)


def attempts_of(client: Client, job: str) -> list[Attempt]:
    count = int(client.show(job)["attempt"])
    return [look(client, job, number) for number in range(1, count + 1)]


def interrupt_at(client: Client, job: str, step: int, kill: bool) -> None:
    """When the job has saved that step, take its node away, and wait until it is tried again."""
    wait_until(lambda: client.show(job)["attempt"], "it has begun")
    number = int(client.show(job)["attempt"])
    wait_until(
        lambda: look(client, job, number).saved >= step or client.show(job)["ended_at_ms"],
        f"step {step} is saved",
    )
    notice = 0 if kill else NOTICE_SECONDS
    client.interrupt(job, notice_seconds=notice, absence_seconds=AWAY_SECONDS)
    how = "kill -9" if kill else f"{NOTICE_SECONDS} s notice"
    print(f"after step {step:4}: {how}", flush=True)
    wait_until(lambda: int(client.show(job)["attempt"]) > number, "it is tried again")


def nothing_was_lost(attempts: list[Attempt]) -> bool:
    """Whether each attempt went on from no less than what was saved before it."""
    safe = 0
    for number, one in enumerate(attempts, start=1):
        print(f"attempt {number}: went on from step {one.began:4}, saved up to {one.saved}")
        if one.began < safe:
            return False
        safe = max(safe, one.began, one.saved)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interruptions", type=int, default=6)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=11)
    told = parser.parse_args()
    chance = random.Random(told.seed)
    points = sorted(chance.sample(range(10, told.steps // 2, 10), told.interruptions))
    kills = [number % 2 == 1 for number in range(told.interruptions)]
    chance.shuffle(kills)
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder, "state")) as client:
        envs = {"CHECKPOINT_DIR": f"{folder}/saved", "STEPS": told.steps, "SAVE_EVERY": 10}
        job_file = HERE / "job.yaml"
        whole = client.submit(job_file, queue="training", envs=envs, name="in-peace")
        other = client.submit(job_file, queue="training", envs=envs, name="interrupted")
        for step, kill in zip(points, kills, strict=True):
            interrupt_at(client, other.id, step, kill)
        ends = [whole.wait(PATIENCE_SECONDS), other.wait(PATIENCE_SECONDS)]
        attempts = attempts_of(client, other.id)
        is_safe = nothing_was_lost(attempts)
        learnt = look(client, whole.id, 1).weights, attempts[-1].weights
        shown = client.show(other.id)
    print(f"in peace:    {ends[0]}, weights {learnt[0][:16]}")
    print(
        f"interrupted: {ends[1]}, weights {learnt[1][:16]}, {shown['attempt']} attempts, "
        f"{shown['failures']} failures, {shown['preemptions']} preemptions"
    )
    same = bool(learnt[0]) and learnt[0] == learnt[1]
    print("the same weights" if same else "NOT the same weights")
    print("nothing that was saved was lost" if is_safe else "something that was saved was LOST")
    enough = int(shown["attempt"]) == told.interruptions + 1 and not shown["failures"]
    return 0 if same and is_safe and enough else 1


if __name__ == "__main__":
    sys.exit(main())

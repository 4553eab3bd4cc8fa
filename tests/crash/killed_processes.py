"""A control plane that is killed repeatedly, and what its jobs really did.

Run as a program: ``python -m tests.crash.killed_processes FOLDER SEED KILLS``. It imports everything once and
forks one control plane after the other, so that a hundred of them start quickly. Each submits jobs, records
which were acknowledged, and is killed by SIGKILL at a boundary that the seed chooses: before or after a
commit, before or after an order reaches the engine. The last one runs until all jobs have ended.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bursar.catalog.gpu_models import GPU_MODELS
from bursar.config import parse_fleet
from bursar.config.job.job_file import JobDocument
from bursar.control.control_plane import OPERATOR, ControlPlane, PlaneOptions
from bursar.control.requests.job_requests import SubmitJobs
from bursar.control.requests.submission import IdempotencyKey
from bursar.engines.local.engine import LocalEngine
from bursar.engines.local.settings import LocalSettings
from bursar.model.fleet.fleet import EngineKind
from bursar.model.jobs.job import OVER, JobSpec, TaskGroup, WholeGpus
from bursar.model.jobs.run_spec import RunSpec
from bursar.model.units import HOUR_MS
from bursar.ports import AttemptRef, Batch, LeaderLease, StartOrder
from bursar.store import open_store

JOBS_PER_PROCESS = 6
LAST_BOUNDARY = 36
PROCESS_SECONDS = 6.0
LAST_PROCESS_SECONDS = 90.0
TOUCH_SECONDS = 0.05

FLEET = """
clusters:
  here: {engine: local}
pools:
  t4: {cluster: here, market: owned, gpu_model: t4, gpus_per_node: 4, cpus: 64, memory_gib: 64,
       usd_per_node_hour: 1.6, nodes: 2}
tenants:
  acme:
    budget: {usd: 1000, enforcement: hard}
    children:
      left: {quotas: {t4/owned: 4}}
      right: {quotas: {t4/owned: 4}}
"""

SCRIPT = """
record() {
  echo "$1 $BURSAR_JOB_ID $BURSAR_ATTEMPT $BURSAR_NODE $CUDA_VISIBLE_DEVICES $(date +%s%N)" >> "$EFFECTS"
}
record begin
sleep "$NAP"
record end
"""


class CrashPoint:
    """Counts boundaries and ends the process at one of them."""

    def __init__(self, at: int | None) -> None:
        self._at = at
        self._seen = 0

    def reach_boundary(self) -> None:
        self._seen += 1
        if self._seen == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)


class CrashingStore:
    """A real store with a boundary before and after every commit."""

    def __init__(self, inner: Any, crash_point: CrashPoint) -> None:
        self._inner = inner
        self._doom = crash_point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, batch: Batch, lead: LeaderLease) -> int:
        self._doom.reach_boundary()
        last: int = self._inner.append(batch, lead)
        self._doom.reach_boundary()
        return last


class CrashingEngine(LocalEngine):
    """The real engine, with boundaries around orders and settled attempts."""

    crash_point: CrashPoint

    def start(self, order: StartOrder) -> None:
        self.crash_point.reach_boundary()
        super().start(order)
        self.crash_point.reach_boundary()

    def settled(self, refs: Iterable[AttemptRef]) -> None:
        self.crash_point.reach_boundary()
        super().settled(refs)
        self.crash_point.reach_boundary()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneProcess:
    """One control plane that submits jobs until it is killed."""

    folder: Path
    number: int
    seed: int
    boundary: int | None

    def run(self) -> None:
        crash_point = CrashPoint(self.boundary)
        engine = CrashingEngine(LocalSettings(state=self.folder / "state", nodes=("t4-1", "t4-2")))
        engine.crash_point = crash_point
        store = CrashingStore(open_store(self.folder / "bursar.db"), crash_point)
        options = PlaneOptions(
            address=f"process {self.number}",
            known_models=frozenset(model.name for model in GPU_MODELS),
            initial_fleet=parse_fleet({"fleet.yaml": FLEET}),
        )
        plane = ControlPlane(store, {EngineKind.LOCAL: engine}, options)
        plane.start()
        _until(lambda: plane.is_leader, 30)
        self._submit(plane)
        if self.boundary is None:
            _until(lambda: _all_ended(plane), LAST_PROCESS_SECONDS)
        else:
            time.sleep(PROCESS_SECONDS)
        plane.close()
        store.close()

    def _submit(self, plane: ControlPlane) -> None:
        chance = random.Random(f"{self.seed} {self.number}")
        for index in range(JOBS_PER_PROCESS):
            key = IdempotencyKey(tenant="acme", key=f"{self.number}-{index}", request_sha256="x")
            job = self._job(chance)
            ids = (
                plane.send(SubmitJobs(caller=OPERATOR, submissions=[job], key=key))
                .result(60)
                .job_ids
            )
            _append(self.folder / "acknowledged", " ".join(ids))
            time.sleep(chance.random() * 0.02)

    def _job(self, chance: random.Random) -> JobDocument:
        group = TaskGroup(gpu=WholeGpus(count=chance.choice((1, 1, 2, 4))), cpu_milli=1000)
        queue = chance.choice(("left", "right"))
        spec = JobSpec(name="touch", queue=queue, groups=(group,), max_run_ms=HOUR_MS)
        envs = {
            "EFFECTS": str(self.folder / "effects"),
            "NAP": f"{chance.random() * TOUCH_SECONDS:.3f}",
        }
        return JobDocument(spec=spec, recipe=RunSpec(run=SCRIPT, envs=envs))


def _append(path: Path, line: str) -> None:
    """Writes durably: the tests rely on it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.fsync(descriptor)
    os.close(descriptor)


def _all_ended(plane: ControlPlane) -> bool:
    counted = plane.reader.count_jobs(None)
    return all(state in OVER for state, number in counted.items() if number)


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)


def run_processes(
    folder: Path, seed: int, kills: int, kind: type[ControlPlaneProcess] | None = None
) -> dict[str, int]:
    """Runs all processes in turn; counts how many were killed and how many finished."""
    chance = random.Random(seed)
    ended = {"killed": 0, "finished": 0}
    for number in range(kills + 1):
        is_last = number == kills
        boundary = None if is_last else chance.randint(1, LAST_BOUNDARY)
        child = os.fork()
        if not child:
            try:
                make = kind or ControlPlaneProcess
                make(folder=folder, number=number, seed=seed, boundary=boundary).run()
            except BaseException as error:
                print(f"process {number},  boundary {boundary}: {error!r}", file=sys.stderr)
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            ended["killed"] += 1
        elif os.WEXITSTATUS(status) == 0:
            ended["finished"] += 1
        else:
            raise SystemExit(f"process {number} at boundary {boundary} of seed {seed} broke")
    return ended


def main(arguments: Sequence[str]) -> None:
    folder, seed, kills = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    print(json.dumps(run_processes(folder, seed, kills)))


if __name__ == "__main__":
    main(sys.argv[1:])

"""A control plane on a real SQLite file, with an engine whose attempts end when a test ends them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bursar.catalog.gpu_models import GPU_MODELS
from bursar.config import FleetFile, parse_fleet
from bursar.config.job.job_file import JobDocument
from bursar.control.control_plane import OPERATOR, ControlPlane, PlaneOptions
from bursar.control.requests.job_requests import SubmitJobs
from bursar.model.fleet.fleet import EngineKind
from bursar.model.jobs.job import JobSpec, JobState, TaskGroup, WholeGpus
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import Clock, InterruptionSource, JobRow
from bursar.store import open_store
from tests.support.memory_engine import MemoryEngine

PATIENCE_SECONDS = 20.0

FLEET = """
clusters:
  here: {engine: local}
pools:
  t4:
    cluster: here
    market: owned
    gpu_model: t4
    gpus_per_node: 4
    cpus: 16
    memory_gib: 64
    usd_per_node_hour: 1.60
    nodes: %d
tenants:
  acme:
    children:
      retraining: {quotas: {t4/owned: 4}}
      experiments: {quotas: {t4/owned: 4}}
"""


def small_fleet(nodes: int = 2) -> FleetFile:
    return parse_fleet({"fleet.yaml": FLEET % nodes})


def gpu_job(gpus: int = 1, queue: str = "retraining", **more: object) -> JobDocument:
    spec = JobSpec(
        name="train",
        queue=queue,
        groups=(TaskGroup(gpu=WholeGpus(count=gpus), cpu_milli=1000, memory_mib=1024),),
        **more,  # type: ignore[arg-type]
    )
    return JobDocument(spec=spec, recipe=RunSpec(run="true"))


@dataclass
class ControlPlaneHarness:
    """One folder, one engine, and control planes that a test starts and closes."""

    folder: Path
    engine: MemoryEngine = field(default_factory=MemoryEngine)
    fleet: FleetFile = field(default_factory=small_fleet)
    clock: Clock | None = None
    messages: list[str] = field(default_factory=list)
    database: str | None = None
    notices: tuple[InterruptionSource, ...] = ()

    @contextmanager
    def plane(self, address: str = "first") -> Iterator[ControlPlane]:
        store = open_store(self.database or self.folder / "bursar.db")
        options = PlaneOptions(
            address=address,
            known_models=frozenset(model.name for model in GPU_MODELS),
            initial_fleet=self.fleet,
            notify=self.messages.append,
            interruption_sources=self.notices,
        )
        made = ControlPlane(store, {EngineKind.LOCAL: self.engine}, options, self.clock)
        made.start()
        try:
            yield made
        finally:
            made.close()
            store.close()


def submit(plane: ControlPlane, *jobs: JobDocument) -> tuple[str, ...]:
    return (
        plane.send(SubmitJobs(caller=OPERATOR, submissions=jobs)).result(PATIENCE_SECONDS).job_ids
    )


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits until the condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.01)


def row_of(plane: ControlPlane, job_id: str) -> JobRow:
    row = plane.reader.job(job_id)
    assert row is not None
    return row


def until_state(plane: ControlPlane, job_id: str, state: JobState) -> JobRow:
    until(lambda: row_of(plane, job_id).state is state, f"{job_id} is {state}")
    return row_of(plane, job_id)

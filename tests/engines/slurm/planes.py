"""A control plane that drives a Slurm lab, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bursar.catalog.gpu_models import GPU_MODELS
from bursar.config import parse_fleet
from bursar.config.job.job_file import JobDocument
from bursar.control.control_plane import OPERATOR, ControlPlane, PlaneOptions
from bursar.control.requests.job_requests import SubmitJobs
from bursar.engines.slurm.commands.commands import Commands
from bursar.engines.slurm.driven.engine import SlurmEngine
from bursar.engines.slurm.driven.settings import SlurmSettings
from bursar.model.fleet.fleet import EngineKind
from bursar.model.jobs.job import JobSpec, JobState, TaskGroup, WholeGpus
from bursar.model.jobs.run_spec import RunSpec
from bursar.store import open_store
from tests.support.slurm_lab import Lab

FLEET = """
clusters:
  lab: {{engine: slurm}}
pools:
  t4: {{market: owned, gpus: t4 x 4, cpus: 32, memory_gib: 60, usd_per_node_hour: 1.6, nodes: [{nodes}]}}
tenants:
  acme: {{children: {{research: {{}}}}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """A control plane with its Slurm engine."""

    plane: ControlPlane
    engine: SlurmEngine
    state: Path

    def submit(self, count: int, recipe: RunSpec) -> list[str]:
        """Submit identical jobs with one GPU and one CPU each."""
        group = TaskGroup(gpu=WholeGpus(count=1), cpu_milli=1_000)
        spec = JobSpec(name="short", queue="research", groups=(group,))
        jobs = [JobDocument(spec=spec, recipe=recipe) for _ in range(count)]
        return list(
            self.plane.send(SubmitJobs(caller=OPERATOR, submissions=jobs)).result(120).job_ids
        )

    def counts(self) -> dict[JobState, int]:
        return dict(self.plane.reader.count_jobs(None))


def settings_for(lab: Lab, state: Path) -> SlurmSettings:
    return SlurmSettings(
        state=state,
        commands=Commands(environment=lab.environment()),
        rest_socket=lab.rest_socket,
        launch_seconds=8.0,
    )


@contextmanager
def driven(lab: Lab, state: Path, nodes: tuple[str, ...]) -> Iterator[Driven]:
    """Run a control plane within the block. Its jobs continue afterwards."""
    state.mkdir(exist_ok=True)
    store = open_store(state / "bursar.db")
    engine = SlurmEngine(settings_for(lab, state))
    plane = ControlPlane(
        store,
        {EngineKind.SLURM: engine},
        PlaneOptions(
            address="http://127.0.0.1:0",
            known_models=frozenset(model.name for model in GPU_MODELS),
            initial_fleet=parse_fleet({"fleet.yaml": FLEET.format(nodes=", ".join(nodes))}),
        ),
    )
    plane.start()
    try:
        yield Driven(plane=plane, engine=engine, state=state)
    finally:
        plane.close()
        store.close()

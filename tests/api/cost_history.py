"""Writes two weeks of history of a small company into an event log.

Two pools: ``a100`` is owned, one node of 8 GPUs for $16 an hour; ``t4`` is spot, one node of 4 GPUs for
$1.60. Each day team A trains on 4 A100s for 12 hours ($96), and loses another run of 2 GPUs after 3 hours
($12); team B has a quarter of a T4 all day ($2.40). So a day costs $422.40, of which $312.00 are idle.
"""

from __future__ import annotations

import time
from pathlib import Path

from bursar.config.fleet.fleet_file import parse_fleet
from bursar.model import event as ev
from bursar.model.jobs.attempt import Exit, Placement, ShareUse, Task
from bursar.model.jobs.job import JobSpec, MpsShare, TaskGroup, WholeGpus
from bursar.model.jobs.run_spec import RunSpec
from bursar.model.units import DAY_MS, HOUR_MS
from bursar.ports import Batch, JobOrigin
from bursar.store import open_store

DAYS = 14
FLEET = """
clusters:
  here: {engine: local}
pools:
  a100:
    cluster: here
    market: owned
    gpu_model: a100-80gb
    gpus_per_node: 8
    cpus: 96
    memory_gib: 1024
    usd_per_node_hour: 16
    nodes: [a100-1]
  t4:
    cluster: here
    market: spot
    gpu_model: t4
    gpus_per_node: 4
    cpus: 48
    memory_gib: 192
    usd_per_node_hour: 1.60
    interruptions_per_million_hours: 5000
    labels:
      node.kubernetes.io/instance-type: g4dn.12xlarge
      topology.kubernetes.io/region: us-east-1
    nodes: [t4-1]
tenants:
  acme:
    children:
      team-a:
        budget: {usd: 4000, period: year}
        children:
          a-train: {}
          a-dev: {}
      team-b:
        children:
          b-train: {}
"""


def today_ms() -> int:
    """Start of today."""
    return time.time_ns() // 1_000_000 // DAY_MS * DAY_MS


def begin_ms() -> int:
    """Start of the history: two weeks before today."""
    return today_ms() - DAYS * DAY_MS


class History:
    """Collects the events and origins to write."""

    def __init__(self) -> None:
        self.events: list[ev.LoggedEvent] = []
        self.origins: dict[str, JobOrigin] = {}

    def declare(self, at_ms: int) -> None:
        declared = parse_fleet({"fleet.yaml": FLEET})
        self.events.append(
            ev.FleetDeclared(
                at_ms=at_ms,
                fleet=declared.fleet,
                tenants=declared.tenants,
                policies=declared.policies,
            )
        )

    def submit(self, job_id: str, at_ms: int, spec: JobSpec, origin: JobOrigin) -> None:
        self.events.append(ev.JobSubmitted(at_ms=at_ms, job_id=job_id, spec=spec, priority=0))
        self.origins[job_id] = origin

    def start(self, job_id: str, at_ms: int, placement: Placement) -> None:
        self.events.append(
            ev.AttemptAssigned(at_ms=at_ms, job_id=job_id, attempt=1, placement=placement)
        )
        self.events.append(ev.AttemptStarted(at_ms=at_ms, job_id=job_id, attempt=1))

    def succeed(self, job_id: str, at_ms: int) -> None:
        self.events.append(ev.AttemptSucceeded(at_ms=at_ms, job_id=job_id, attempt=1))

    def fail(self, job_id: str, at_ms: int) -> None:
        self.events.append(
            ev.AttemptFailed(at_ms=at_ms, job_id=job_id, attempt=1, exit=Exit(code=1))
        )


def add_day(history: History, number: int, day_ms: int) -> None:
    """Adds the events of one day in time order."""
    train, failing, serve = f"j-train{number:05}", f"j-bad{number:07}", f"j-serve{number:05}"
    four, two, quarter = (
        JobSpec(
            name="pretrain",
            queue="a-train",
            groups=(TaskGroup(gpu=WholeGpus(count=4)),),
            expected_run_ms=12 * HOUR_MS,
        ),
        JobSpec(name="sweep", queue="a-train", groups=(TaskGroup(gpu=WholeGpus(count=2)),)),
        JobSpec(name="serve", queue="b-train", groups=(TaskGroup(gpu=MpsShare(percent=25)),)),
    )
    ann = JobOrigin(owner="ann", recipe=RunSpec(run="true"), labels={"project": "atlas"})
    amos = JobOrigin(owner="amos", recipe=RunSpec(run="true"), labels={"project": "=birch"})
    bob = JobOrigin(owner="bob", recipe=RunSpec(run="true"))
    share = Task(
        group="main", node="t4-1", count=1, shares=(ShareUse(gpu=0, percent=25, memory_mib=0),)
    )
    history.submit(serve, day_ms, quarter, bob)
    history.start(serve, day_ms, _placement("t4", "t4-16gb/spot", share, 100_000))
    history.submit(train, day_ms + HOUR_MS, four, ann)
    gpus = Task(group="main", node="a100-1", count=1, gpus=(0, 1, 2, 3))
    history.start(train, day_ms + HOUR_MS, _placement("a100", "a100-80gb/owned", gpus, 8_000_000))
    history.submit(failing, day_ms + 2 * HOUR_MS, two, amos)
    gpus = Task(group="main", node="a100-1", count=1, gpus=(4, 5))
    history.start(
        failing, day_ms + 2 * HOUR_MS, _placement("a100", "a100-80gb/owned", gpus, 4_000_000)
    )
    history.fail(failing, day_ms + 5 * HOUR_MS)
    history.succeed(train, day_ms + 13 * HOUR_MS)
    history.succeed(serve, day_ms + DAY_MS)


def _placement(pool: str, flavor: str, task: Task, micro_usd_per_hour: int) -> Placement:
    return Placement(pool=pool, flavor=flavor, tasks=(task,), micro_usd_per_hour=micro_usd_per_hour)


def write_history(folder: Path, days: int = DAYS, from_ms: int | None = None) -> None:
    """Writes the history into an empty state folder."""
    history = History()
    first_ms = begin_ms() if from_ms is None else from_ms
    history.declare(first_ms)
    for number in range(days):
        add_day(history, number, first_ms + number * DAY_MS)
    store = open_store(folder / "bursar.db")
    try:
        lease = store.try_lead("http://127.0.0.1:1")
        assert lease is not None
        store.append(Batch(events=tuple(history.events), origins=history.origins), lease)
        lease.release()
    finally:
        store.close()

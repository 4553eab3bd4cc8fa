"""Runs the same jobs on a real Slurm and in the simulator.

Four queues of two departments have different past usage, so that the fair tree has an effect. Then 300 jobs
wait before a closed partition; when it opens, both decide in which order they start.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace

from bursar.config import FleetFile, parse_fleet
from bursar.engines.slurm.commands.commands import Commands
from bursar.engines.slurm.governed.conf import conf_text
from bursar.engines.slurm.governed.desired import AccountMember, SlurmSetup
from bursar.engines.slurm.governed.difference import apply, difference
from bursar.engines.slurm.governed.present import read_current_setup
from bursar.engines.slurm.governed.render import RenderOptions, render
from bursar.model.event import AttemptAssigned, JobSubmitted
from bursar.model.jobs.job import JobSpec, TaskGroup, WholeGpus
from bursar.model.tenants.policy import Policies
from bursar.model.units import SECOND_MS
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from bursar.slurm_text import parse_time_ms
from tests.support.slurm_lab.lab import Lab
from tests.support.slurm_lab.lab_spec import LabPlan, t4_nodes

NODES, GPUS_EACH, JOBS, SEED = 16, 4, 300, 7
LIMIT_SECONDS = 60
FLEET = f"""
clusters: {{lab: {{engine: slurm}}}}
pools:
  t4:
    market: owned
    gpus: t4 x {GPUS_EACH}
    cpus: 32
    memory_gib: 62.5
    usd_per_node_hour: 1.6
    nodes: [{", ".join(f"t4-{number}" for number in range(1, NODES + 1))}]
tenants:
  acme:
    children:
      research: {{children: {{vision: {{weight: 2}}, language: {{weight: 1}}}}}}
      product: {{children: {{robots: {{}}, serving: {{}}}}}}
policies:
  order: {{share: fair-tree, terms: [submitted], half_life: 7 d, entry_horizon: 0 s}}
  backfill: {{reservations: 16, unknown_run_time: 1 min, reserve_unknown_after: 0 s}}
  placement: packing
"""
USERS = {"vision": "alice", "language": "bob", "robots": "carol", "serving": "dave"}
WARM = "warm"
WARM_FACTOR = 1_000
"""Usage factor of the QOS ``warm``: creates past usage without the wait."""
EARLIER = {"vision": (3, 5), "language": (3, 4), "robots": (1, 3), "serving": (1, 1)}
"""Past usage of each queue: nodes and seconds."""
OPENS_MS = 10_000 * SECOND_MS
SHAPES = ((1, 1),) * 4 + ((2, 1),) * 3 + ((4, 1),) * 2 + ((4, 2),)


@dataclass(frozen=True, slots=True)
class Work:
    """One job: GPUs per node, nodes, and run time."""

    number: int
    queue: str
    gpus: int
    nodes: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Ran:
    """Start time after the partition opened, and run time."""

    work: Work
    start_ms: int
    run_ms: int


def the_work() -> list[Work]:
    """The jobs, identical on every machine."""
    draw = random.Random(SEED)
    return [
        Work(number, draw.choice(sorted(USERS)), *draw.choice(SHAPES), draw.randint(1, 6))
        for number in range(JOBS)
    ]


def the_fleet() -> FleetFile:
    return parse_fleet({"fleet.yaml": FLEET})


def the_setup(file: FleetFile) -> SlurmSetup:
    members = tuple(AccountMember(user=user, account=queue) for queue, user in USERS.items())
    options = RenderOptions(cluster="lab", members=members)
    return render(file.fleet, file.tenants, file.policies, options)


def the_plan(setup: SlurmSetup) -> LabPlan:
    lines = [line for line in conf_text(setup).splitlines() if not line.startswith("#")]
    return LabPlan(
        nodes=t4_nodes(NODES),
        partitions=(),
        rest=False,
        enforce="associations,limits,qos",
        slurm_conf=tuple(lines),
    )


# -- Slurm -------------------------------------------------------------------------------------------


def through_slurm(lab: Lab, setup: SlurmSetup, work: list[Work]) -> list[Ran]:
    """Create accounts and past usage, fill a closed partition with jobs, then open it."""
    commands = Commands(environment=lab.environment())
    apply(commands, setup, difference(setup, read_current_setup(commands)))
    lab.run("sacctmgr", "-i", "-Q", "add", "qos", WARM, f"UsageFactor={WARM_FACTOR}")
    accounts = ",".join(sorted(USERS))
    lab.run("sacctmgr", "-i", "-Q", "modify", "account", accounts, "set", f"qos+={WARM}")
    for queue, (nodes, seconds) in sorted(EARLIER.items()):
        _submit(lab, Work(0, queue, GPUS_EACH, nodes, seconds), f"--qos={WARM}")
    _wait_for_the_end(lab)
    _count_usage_now(lab)
    lab.run("scontrol", "update", "partition=t4", "state=down")
    numbers = {_submit(lab, one): one for one in work}
    lab.run("scontrol", "update", "partition=t4", "state=up")
    _wait_for_the_end(lab)
    text = lab.run("sacct", "-P", "-n", "-X", "-a", "-o", "JobID,Start,End,State")
    runs = []
    for line in text.splitlines():
        number, start, end, state = line.split("|")
        if number in numbers:
            assert state == "COMPLETED", line
            start_ms, end_ms = parse_time_ms(start), parse_time_ms(end)
            assert start_ms is not None and end_ms is not None
            runs.append(Ran(numbers[number], start_ms, end_ms - start_ms))
    first_ms = min(one.start_ms for one in runs)
    return [replace(one, start_ms=one.start_ms - first_ms) for one in runs]


def _submit(lab: Lab, work: Work, *more: str) -> str:
    size = (f"--nodes={work.nodes}", f"--gres=gpu:t4:{work.gpus}", f"--time={LIMIT_SECONDS // 60}")
    who = (f"--uid={USERS[work.queue]}", f"--account={work.queue}")
    where = ("--partition=t4", "--output=/dev/null")
    wrap = f"--wrap=sleep {work.seconds}"
    return lab.run("sbatch", "--parsable", *who, *where, *size, *more, wrap).strip()


def _wait_for_the_end(lab: Lab, timeout_seconds: float = 240) -> None:
    until = time.monotonic() + timeout_seconds
    while lab.run("squeue", "-h", "-o", "%i").strip():
        assert time.monotonic() < until, "the jobs did not end"
        time.sleep(0.5)


def _count_usage_now(lab: Lab) -> None:
    """Restart slurmctld: Slurm sums usage once a minute and at its start, which takes two seconds."""
    lab.run("scontrol", "shutdown", "slurmctld")
    until = time.monotonic() + 20
    while lab.pid("slurmctld") is not None:
        assert time.monotonic() < until, "slurmctld did not stop"
        time.sleep(0.1)
    lab.start_controller()
    while "serving|dave|1|1.000000|0|" in lab.run("sshare", "-a", "-l", "-P"):
        assert time.monotonic() < until + 80, "usage is not counted"
        time.sleep(0.5)


# -- the simulator -----------------------------------------------------------------------------------


def through_the_simulator(
    file: FleetFile, policies: Policies, before: list[Ran], turn_over_ms: int
) -> list[Ran]:
    """Simulate the jobs with Slurm's run times and ``turn_over_ms`` between two jobs on a GPU."""
    events = [
        JobSubmitted(
            at_ms=0,
            job_id=f"warm-{queue}",
            spec=_spec(f"warm-{queue}", queue, nodes, 4),
            priority=0,
        )
        for queue, (nodes, _) in sorted(EARLIER.items())
    ]
    run_ms = {
        f"warm-{queue}": seconds * WARM_FACTOR * SECOND_MS
        for queue, (_, seconds) in EARLIER.items()
    }
    by_id = {f"job-{one.work.number:04}": one for one in before}
    for job_id, one in sorted(by_id.items()):
        spec = _spec(job_id, one.work.queue, one.work.nodes, one.work.gpus)
        events.append(JobSubmitted(at_ms=OPENS_MS, job_id=job_id, spec=spec, priority=0))
        run_ms[job_id] = one.run_ms + turn_over_ms
    scenario = Scenario(
        fleet=file.fleet,
        tenants=file.tenants,
        policies=policies,
        events=events,
        run_ms=run_ms,
        delays=Delays(start_ms=0, stop_ms=0),
    )
    return [
        Ran(by_id[fact.job_id].work, fact.at_ms - OPENS_MS, by_id[fact.job_id].run_ms)
        for step in Simulation(scenario).steps()
        for fact in step.committed
        if isinstance(fact, AttemptAssigned) and fact.job_id in by_id
    ]


def _spec(name: str, queue: str, nodes: int, gpus: int) -> JobSpec:
    group = TaskGroup(count=nodes, gpu=WholeGpus(count=gpus), cpu_milli=1_000, memory_mib=100)
    limit_ms = LIMIT_SECONDS * SECOND_MS
    return JobSpec(name=name, queue=queue, groups=(group,), expected_run_ms=limit_ms)

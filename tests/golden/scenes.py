"""Small scenarios whose decisions are stored as text, so that a changed rule shows in a diff."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bursar.model.decision import (
    ClaimPlacement,
    Decision,
    EvacuateJob,
    Hold,
    PartitionGpu,
    PreemptJob,
    ReleaseClaim,
    StartJob,
    StopJob,
)
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import CheckpointPolicy, Topology
from bursar.model.units import HOUR_MS, MINUTE_MS, write_usd
from tests.support import (
    SchedulerHarness,
    fleet_of,
    job,
    mig_job,
    mps_job,
    pool,
    queue,
    state_of,
    tenant,
)

A100 = "a100-80gb/owned"
Scene = Callable[[], Iterator[SchedulerHarness]]


def lending_and_reclaiming() -> Iterator[SchedulerHarness]:
    """Research borrows all; product comes back for its half and waits for the victim to leave."""
    teams = (tenant("co"), queue("research", "co", {A100: 16}), queue("product", "co", {A100: 16}))
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", 4), topology={"rack": 2}), teams))
    saved = CheckpointPolicy(interval_ms=30 * MINUTE_MS)
    harness.submit(*(job(f"r{n}", gpus=8, hours=6, checkpoint=saved) for n in range(4)))
    harness.cycle()
    yield harness
    harness.start_all().advance(HOUR_MS).save("r1")
    harness.submit(job("p", gpus=8, queue="product", hours=1), job("r4", gpus=8, hours=1))
    harness.cycle()
    yield harness
    harness.preempted(*harness.stop_requested())
    harness.cycle()
    yield harness


def planning_around_a_gang() -> Iterator[SchedulerHarness]:
    """A gang that must share a rack waits; a short job passes it, a long one does not."""
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", 4), topology={"rack": 2})))
    harness.submit(*(job(f"a{n}", gpus=8, hours=hours) for n, hours in enumerate((5, 5, 2))))
    harness.cycle()
    yield harness
    harness.start_all()
    harness.submit(job("gang", gpus=8, tasks=2, hours=1, topology=Topology(required="rack")))
    harness.submit(job("wide", gpus=8, tasks=4, hours=1))
    harness.advance(MINUTE_MS)
    harness.submit(job("short", gpus=4, hours=0.5), job("long", gpus=4, hours=9))
    harness.cycle()
    yield harness


def shared_gpus() -> Iterator[SchedulerHarness]:
    """Slices fill a cut GPU, shares stay off it, and a whole GPU is given back when it is needed."""
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", 1, gpus=2))))
    harness.submit(*(mig_job(f"s{n}", "2g.20gb") for n in range(2)), mps_job("m", 40))
    harness.cycle()
    yield harness
    harness.start_all().finish("s0", "s1")
    harness.submit(job("all", gpus=1), mps_job("m2", 40), mps_job("m3", 40))
    harness.cycle()
    yield harness


SCENES: dict[str, Scene] = {
    one.__name__: one for one in (lending_and_reclaiming, planning_around_a_gang, shared_gpus)
}


def scene_text(scene: Scene) -> str:
    """The decisions of every cycle of a scene, one per line."""
    lines = [(scene.__doc__ or "").strip()]
    for harness in scene():
        lines += ["", f"at {harness.now_ms // MINUTE_MS} min"]
        lines += [f"  {line_of(decision)}" for decision in harness.decisions]
    return "\n".join(lines) + "\n"


def line_of(decision: Decision) -> str:
    """One decision as a line, with its ids and numbers."""
    match decision:
        case StartJob(job_id=job_id, attempt=attempt, placement=placement):
            return f"start {job_id}#{attempt} {_where(placement)}"
        case PreemptJob(job_id=job_id, on_behalf_of=winner, reason=reason, lost_micro_usd=lost):
            return f"preempt {job_id} for {winner}, {reason}, {write_usd(lost)} lost"
        case StopJob(job_id=job_id, reason=reason):
            return f"stop {job_id}, {reason}"
        case EvacuateJob(job_id=job_id, node=node, lost_micro_usd=lost):
            return f"evacuate {job_id} from {node}, {write_usd(lost)} lost"
        case ClaimPlacement(job_id=job_id, placement=placement, victims=victims):
            return f"claim for {job_id} {_where(placement)} from {' '.join(victims)}"
        case ReleaseClaim(job_id=job_id):
            return f"release the place of {job_id}"
        case PartitionGpu(node=node, gpu=gpu, layout=layout):
            return f"cut {node} GPU {gpu}: {' '.join(map(str, layout)) or 'whole'}"
        case Hold(head=head, waiting=waiting, reasons=reasons):
            return f"hold {head} and {waiting - 1} more: {'; '.join(map(str, reasons))}"


def _where(placement: Placement) -> str:
    tasks = ", ".join(_task(task) for task in placement.tasks)
    return f"on {tasks} at {write_usd(placement.micro_usd_per_hour)} an hour"


def _task(task: Task) -> str:
    held = [str(gpu) for gpu in task.gpus]
    held += [f"{use.gpu}:{use.instance}" for use in task.slices]
    held += [f"{use.gpu}:{use.percent}%" for use in task.shares]
    return f"{task.node}[{' '.join(held)}]"

"""Once everything may run and end, everything does, and nothing of it is left behind."""

from __future__ import annotations

from hypothesis import given

from bursar.core.cycle import decide
from bursar.core.nodes.node import FOREIGN
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import StartJob
from bursar.model.event import (
    ForeignUsageSeen,
    JobSubmitted,
    NodeRestored,
)
from bursar.model.fleet.fleet import Fleet, Node
from bursar.model.jobs.job import JobState
from tests.properties.plays import ANY_SCRIPT, Play, Script
from tests.support import SchedulerHarness

ROUNDS = 400
"""Many more than any play has jobs to finish, retry and restart."""


def clear_the_way(stage: SchedulerHarness) -> None:
    """Every node is open and has no holder."""
    for node in sorted(stage.state.pool_of_node):
        stage.apply(ForeignUsageSeen(at_ms=stage.now_ms, node=node))
        stage.apply(NodeRestored(at_ms=stage.now_ms, node=node))


def let_all_end(stage: SchedulerHarness) -> bool:
    """One round: decide, and let everything that holds room end well; whether anything happened."""
    events = len(stage.log)
    stage.cycle()
    stage.start_all()
    stage.advance(1_000)
    stage.preempted()
    stage.finish(*(record.id for record in stage.state.live()))
    return len(stage.log) > events


def fits_alone(stage: SchedulerHarness, job_id: str) -> bool:
    """Whether a job would start in a world like this one in which there is nothing else."""
    state = stage.state
    nodes = tuple(
        Node(id=node.id, pool=pool.spec.name, labels=node.labels)
        for pool in state.pools.values()
        for node in pool.nodes
    )
    fleet = Fleet(
        clusters=tuple(state.clusters.values()),
        pools=tuple(pool.spec for pool in state.pools.values()),
        nodes=nodes,
    )
    empty = FleetState(fleet, state.tenants.values(), state.policies)
    record = state.jobs[job_id]
    for other in record.spec.depends_on:
        if state.finished.get(other) is not JobState.SUCCEEDED:
            return False
        empty.finished[other] = JobState.SUCCEEDED
    empty.apply(
        JobSubmitted(
            at_ms=record.submitted_at_ms,
            job_id=job_id,
            spec=record.spec,
            priority=record.priority,
        )
    )
    return any(isinstance(one, StartJob) for one in decide(empty, stage.now_ms))


def run_dry(stage: SchedulerHarness) -> None:
    """Until nothing happens; then give up what could not even run alone, and go on."""
    for _ in range(ROUNDS):
        if let_all_end(stage):
            continue
        waiting = stage.waiting()
        if not waiting:
            return
        hopeless = [job_id for job_id in waiting if not fits_alone(stage, job_id)]
        assert hopeless, {job_id: stage.hold_of(job_id) for job_id in waiting}
        for job_id in hopeless:
            stage.cancel(job_id)
    raise AssertionError(f"still not at rest: {stage.waiting()}")


def must_be_empty(state: FleetState) -> None:
    """Nothing is held, reserved or charged."""
    assert not state.jobs and not state.blocked and not state.claims
    assert not state.to_stop and not state.limits and not state.dependents
    assert not any(state.running_in.values()) and not any(state.running_priorities.values())
    assert not any(backlog.count or backlog.jobs() for backlog in state.backlogs.by_key.values())
    for pool in state.pools.values():
        assert not pool.ends
        for node in pool.nodes:
            assert node.is_open and not any(node.tags.values())
            assert not set(node.holders) - {FOREIGN}
            assert node.free_gpus == len(node.devices)
            free = (node.cpu_free_milli, node.memory_free_mib, node.disk_free_mib)
            assert free == (pool.spec.cpu_milli, pool.spec.memory_mib, pool.spec.disk_mib)
    for name in state.tenants:
        assert state.usage.rate(name) == 0
        for key in state.limited:
            assert state.quota.usage(name, key) == 0
            assert not state.quota.borrowing_queues(name, [key])


@given(ANY_SCRIPT)
def test_every_job_that_could_run_alone_runs_and_frees_all_resources(script: Script) -> None:
    play = Play(script.world).run(script)
    clear_the_way(play.stage)
    run_dry(play.stage)
    must_be_empty(play.state)

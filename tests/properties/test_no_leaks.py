"""Once all nodes are open, every job that can run runs, and all its resources are released."""

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
from tests.properties.random_steps import ANY_SCRIPT, Script, StepRunner
from tests.support import SchedulerHarness

ROUNDS = 400
"""Many more than any script has jobs to finish, retry and restart."""


def open_all_nodes(harness: SchedulerHarness) -> None:
    """Opens every node and ends foreign usage."""
    for node in sorted(harness.state.pool_of_node):
        harness.apply(ForeignUsageSeen(at_ms=harness.now_ms, node=node))
        harness.apply(NodeRestored(at_ms=harness.now_ms, node=node))


def finish_all(harness: SchedulerHarness) -> bool:
    """Runs one cycle and lets every running job succeed; returns whether anything happened."""
    events = len(harness.log)
    harness.cycle()
    harness.start_all()
    harness.advance(1_000)
    harness.preempted()
    harness.finish(*(record.id for record in harness.state.live()))
    return len(harness.log) > events


def fits_alone(harness: SchedulerHarness, job_id: str) -> bool:
    """Whether the job would start on an empty fleet of the same nodes."""
    state = harness.state
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
    return any(isinstance(one, StartJob) for one in decide(empty, harness.now_ms))


def run_until_idle(harness: SchedulerHarness) -> None:
    """Runs until nothing happens, then cancels jobs that could not even run alone, and repeats."""
    for _ in range(ROUNDS):
        if finish_all(harness):
            continue
        waiting = harness.waiting()
        if not waiting:
            return
        impossible = [job_id for job_id in waiting if not fits_alone(harness, job_id)]
        assert impossible, {job_id: harness.hold_of(job_id) for job_id in waiting}
        for job_id in impossible:
            harness.cancel(job_id)
    raise AssertionError(f"still not idle: {harness.waiting()}")


def require_empty(state: FleetState) -> None:
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
    runner = StepRunner(script.world).run(script)
    open_all_nodes(runner.harness)
    run_until_idle(runner.harness)
    require_empty(runner.state)

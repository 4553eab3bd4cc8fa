"""The audit recounts the state and names values that have drifted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bursar.core.nodes.node import NodeState
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import Backlog
from bursar.model.event import GpuPartitioned
from bursar.model.jobs.attempt import Task
from bursar.model.jobs.job import JobState
from tests.core.check.scene import Scene, a_pool, at, layout_of, share_of, slice_of
from tests.support import fleet_of, job, mig_job, mps_job, queue
from tests.support.state_audit import state_faults

FLAVOR = "a100-40gb/owned"


def busy() -> FleetState:
    """A state with whole, partitioned and shared GPUs, limits, and waiting, blocked and claimed jobs."""
    scene = Scene(fleet_of(a_pool()), (queue(quota={FLAVOR: 8}),))
    layout = layout_of("1g.5gb@0 3g.20gb@4")
    for gpu in (1, 2):
        scene.harness.apply(GpuPartitioned(at_ms=0, node="a-0001", gpu=gpu, layout=layout))
    scene.run(job("whole", max_hours=9, apart="t", cpu=2), at("a-0001", 0))
    slices = (slice_of(1, "1g.5gb@0"),)
    scene.run(
        mig_job("cut", profile="1g.5gb"), Task(group="main", node="a-0001", count=1, slices=slices)
    )
    shares = (share_of(3, 25),)
    scene.run(mps_job("part"), Task(group="main", node="a-0001", count=1, shares=shares))
    scene.run(job("gone", gpus=2), at("a-0002", 2, 3))
    scene.harness.cancel("gone")
    scene.wait(job("next"), job("next"), job("claimer"), job("after", depends_on=("whole",)))
    return scene.claimed("claimer", at("a-0002", 0)).state


def first(state: FleetState) -> NodeState:
    return state.node("a-0001")


def first_backlog(state: FleetState) -> Backlog:
    return state.jobs["next"].backlog


def set_to(owner: Callable[[FleetState], object], name: str, value: object) -> Tamper:
    return lambda state: setattr(owner(state), name, value)


Tamper = Callable[[FleetState], object]

DRIFT: dict[str, tuple[Tamper, str]] = {
    "free CPU": (
        set_to(first, "cpu_free_milli", 1),
        "node a-0001: free milli-CPU is stored as 1, counted as 30000",
    ),
    "free memory": (
        set_to(first, "memory_free_mib", 1),
        "node a-0001: free memory is stored as 1, counted as 65536",
    ),
    "free disk": (
        set_to(first, "disk_free_mib", 1),
        "node a-0001: free disk is stored as 1, counted as 10240",
    ),
    "the mask of idle GPUs": (
        set_to(first, "blank", 1),
        "node a-0001: idle GPUs is stored as 0b1, counted as 0b0",
    ),
    "the mask of cut GPUs": (
        set_to(first, "emptied", 0),
        "node a-0001: partitioned GPUs without holders is stored as 0b0, counted as 0b100",
    ),
    "tags": (
        lambda state: first(state).tags.clear(),
        "node a-0001: tags is stored as [], counted as ['t']",
    ),
    "a device's holder": (
        lambda state: setattr(first(state).devices[0], "whole_holder", "next"),
        "GPU 0 of a-0001: holder is stored as ['next'], counted as ['whole']",
    ),
    "a device's slices": (
        lambda state: first(state).devices[1].held.clear(),
        "GPU 1 of a-0001: slices is stored as [], counted as [('1g.5gb@0', 'cut')]",
    ),
    "a device's shares": (
        lambda state: first(state).devices[3].shares.clear(),
        "GPU 3 of a-0001: shares is stored as [], counted as [('part', 25, 0)]",
    ),
    "the job that claims a node": (
        lambda state: setattr(state.node("a-0002"), "closed_for", "next"),
        "node a-0002: claiming job is stored as next, counted as claimer",
    ),
    "expected ends": (
        lambda state: state.pools["a"].ends.pop(),
        "pool a: expected ends is stored as ",
    ),
    "the index of open nodes": (
        lambda state: state.pools["a"].buckets[1].clear(),
        "pool a: nodes by bucket is stored as [[], [], [], [], []], counted as [[], [0], [], [], []]",
    ),
    "use of quota": (
        lambda state: state.quota.add_usage("research", {(FLAVOR, "gpu"): 5}),
        "tenant research: use of a100-40gb/owned gpu is stored as 3397, counted as 3392",
    ),
    "a job's charge": (
        lambda state: setattr(state.jobs["part"], "request", {}),
        f"job part: charged quota is stored as {{}}, counted as {{('{FLAVOR}', 'gpu'): 250}}",
    ),
    "the number of jobs in a backlog": (
        lambda state: setattr(first_backlog(state), "count", 3),
        "backlog research, 0, shape 4: number of jobs is stored as 3, counted as 2",
    ),
    "run time limits": (
        lambda state: state.limits.clear(),
        "the fleet: run time limits is stored as [], counted as [(32400000, 'whole')]",
    ),
    "running jobs": (
        lambda state: state.running_in["research"].pop("part"),
        "the fleet: running jobs by queue is stored as ",
    ),
    "blocked jobs": (
        lambda state: state.blocked.clear(),
        "the fleet: blocked jobs is stored as [], counted as ['after']",
    ),
    "dependents": (
        lambda state: state.dependents.clear(),
        "the fleet: jobs waited for is stored as [], counted as [('whole', 'after')]",
    ),
    "claims": (
        lambda state: state.claims.clear(),
        "the fleet: claims is stored as [], counted as ['claimer']",
    ),
    "jobs to stop": (
        lambda state: state.to_stop.clear(),
        "the fleet: jobs to stop is stored as [], counted as ['gone']",
    ),
}


def test_a_consistent_state_passes() -> None:
    assert state_faults(busy()) == []


@pytest.mark.parametrize("what", sorted(DRIFT))
def test_drift_is_reported(what: str) -> None:
    state = busy()
    tamper, expected = DRIFT[what]
    tamper(state)
    (fault,) = state_faults(state)
    assert str(fault).startswith(expected)


def test_a_holder_without_a_running_job_is_reported() -> None:
    state = busy()
    state.jobs["whole"].state = JobState.QUEUED
    assert "node a-0001: its holders is stored as {'cut': 1, 'part': 1, 'whole': 1}, " in "\n".join(
        str(fault) for fault in state_faults(state)
    )

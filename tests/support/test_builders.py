"""The builders build what their options describe, in the units of the model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bursar.model.event import AttemptAssigned, AttemptStopping
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import Constraints, JobState, MigSlice, MpsShare, TaskGroup, WholeGpus
from bursar.model.tenants.tenant import Quota
from bursar.model.units import HOUR_MS
from tests.support import (
    SchedulerHarness,
    fleet_of,
    gang,
    gpu_model,
    group,
    job,
    mig_job,
    mps_job,
    pool,
    queue,
    quota,
    state_of,
    submit,
    tenant,
)

FACTS: dict[str, Callable[[], tuple[object, object]]] = {
    "a pool's price is whole micro-dollars": lambda: (
        pool("p", usd_per_node_hour=2.5).as_pool().node_micro_usd_per_hour,
        2_500_000,
    ),
    "a pool's CPUs and memory are in milli and MiB": lambda: (
        (pool("p", cpu=2).as_pool().cpu_milli, pool("p", memory_gib=2).as_pool().memory_mib),
        (2_000, 2_048),
    ),
    "a pool's flavor is its model and market": lambda: (
        pool("p", model="h100", market=Market.SPOT).as_pool().flavor,
        "h100-80gb/spot",
    ),
    "a pool of no GPUs has no model": lambda: (pool("p", gpus=0).as_pool().gpu_model, None),
    "a model is found by any of its names": lambda: (
        gpu_model("NVIDIA-A100-SXM4-80GB").name,
        "a100-80gb",
    ),
    "nodes are numbered from 1": lambda: (
        [node.id for node in fleet_of(pool("p", nodes=2)).nodes],
        ["p-0001", "p-0002"],
    ),
    "nodes in a row share domains": lambda: (
        [
            (node.labels["block"], node.labels["rack"])
            for node in fleet_of(pool("p", nodes=5), topology={"block": 4, "rack": 2}).nodes
        ],
        [
            ("p-block-0001", "p-rack-0001"),
            ("p-block-0001", "p-rack-0001"),
            ("p-block-0001", "p-rack-0002"),
            ("p-block-0001", "p-rack-0002"),
            ("p-block-0002", "p-rack-0003"),
        ],
    ),
    "levels go to the clusters, widest first": lambda: (
        fleet_of(pool("p"), topology={"block": 4, "rack": 2}).clusters[0].topology_levels,
        ("block", "rack"),
    ),
    "pools of two clusters make two clusters": lambda: (
        [c.name for c in fleet_of(pool("p"), pool("q", cluster="far"), pool("r")).clusters],
        ["main", "far"],
    ),
    "a quota by flavor alone is in GPUs": lambda: (
        tenant("t", quota={"a100-80gb/owned": 16}).quotas,
        {("a100-80gb/owned", "gpu"): Quota(nominal=16_000)},
    ),
    "a quota of memory is in MiB, limits included": lambda: (
        tenant("t", quota={("cpu/owned", "memory"): quota(4, borrow=2, lend=0)}).quotas,
        {("cpu/owned", "memory"): Quota(nominal=4_096, borrowing_limit=2_048, lending_limit=0)},
    ),
    "a queue is a tenant with jobs": lambda: (
        (queue("q", parent="t").is_queue, tenant("t").is_queue),
        (True, False),
    ),
    "a job asks for whole GPUs": lambda: (
        job("j", gpus=4, tasks=2, cpu=1.5, models=("h100-80gb",)).groups,
        (
            TaskGroup(
                name="main",
                count=2,
                gpu=WholeGpus(count=4, models=("h100-80gb",)),
                cpu_milli=1_500,
            ),
        ),
    ),
    "hours are expected and max_hours is the limit": lambda: (
        (job(hours=2).expected_run_ms, job(max_hours=0.5).max_run_ms, job().max_run_ms),
        (2 * HOUR_MS, HOUR_MS // 2, None),
    ),
    "words about places become constraints": lambda: (
        job(markets=(Market.SPOT,), apart="db", retries=2).constraints,
        Constraints(markets=(Market.SPOT,), apart="db"),
    ),
    "a MIG job asks for one instance a task": lambda: (
        mig_job(profile="2g.20gb", tasks=3).groups[0].gpu,
        MigSlice(profile="2g.20gb"),
    ),
    "an MPS job asks for percent and memory": lambda: (
        mps_job(percent=50, gpu_memory_gib=10).groups[0].gpu,
        MpsShare(percent=50, memory_mib=10_240),
    ),
    "a gang has its groups in order": lambda: (
        [g.name for g in gang("g", group("launcher"), group("worker", 4, gpus=8)).groups],
        ["launcher", "worker"],
    ),
    "an elastic job has a minimum": lambda: (job(tasks=4, min_tasks=2).groups[0].min_count, 2),
}


@pytest.mark.parametrize("sentence", FACTS)
def test_fleets(sentence: str) -> None:
    built, meant = FACTS[sentence]()
    assert built == meant


def assigned(harness: SchedulerHarness, job_id: str, gpus: tuple[int, ...]) -> None:
    """Give a job GPUs of the first node, as a cycle would."""
    task = Task(group="main", node="p-0001", count=1, gpus=gpus)
    placement = Placement(pool="p", flavor="a100-80gb/owned", tasks=(task,), micro_usd_per_hour=1)
    attempt = harness.job(job_id).attempt + 1
    harness.apply(
        AttemptAssigned(at_ms=harness.now_ms, job_id=job_id, attempt=attempt, placement=placement)
    )


def test_a_submitted_job_waits_under_its_name() -> None:
    state = state_of(fleet_of(pool("p")))
    assert submit(state, job("train")) == "train"
    assert state.jobs["train"].priority == 0
    assert submit(state, job("train"), job_id="again", priority=7, at_ms=5) == "again"
    assert state.jobs["again"].priority == 7
    assert state.jobs["again"].submitted_at_ms == 5


def test_a_job_runs_on_the_harness() -> None:
    harness = SchedulerHarness(state_of(fleet_of(pool("p"))))
    assert harness.submit(job("a", gpus=2), job("a")) == ["a", "a-2"]
    assert harness.waiting() == ["a", "a-2"]
    assigned(harness, "a", (0, 3))
    assert harness.running() == ["a"]
    assert harness.gpus_of("a") == {"p-0001": (0, 3)}
    assert harness.nodes_of("a") == ["p-0001"]
    assert harness.free_gpus("p") == 6
    harness.start_all().advance(HOUR_MS).save("a").finish("a")
    assert harness.state_of("a") is JobState.SUCCEEDED
    assert harness.now_ms == HOUR_MS
    assert "a" in harness and "b" not in harness
    assert [type(event).__name__ for event in harness.log] == [
        "JobSubmitted",
        "JobSubmitted",
        "AttemptAssigned",
        "AttemptStarted",
        "CheckpointSaved",
        "AttemptSucceeded",
    ]


def test_a_preempted_job_waits_again_once_it_has_stopped() -> None:
    harness = SchedulerHarness(state_of(fleet_of(pool("p"))))
    harness.submit(job("a"))
    assigned(harness, "a", (0,))
    harness.start_all().apply(AttemptStopping(at_ms=0, job_id="a", attempt=1))
    assert harness.stop_requested() == ["a"]
    assert harness.running() == []
    harness.preempted()
    assert harness.waiting() == ["a"]
    with pytest.raises(LookupError, match="a is queued and has no place"):
        harness.nodes_of("a")


def test_failed_and_cancelled_jobs_are_over() -> None:
    harness = SchedulerHarness(state_of(fleet_of(pool("p"))))
    harness.submit(job("a"), job("b", retries=1))
    harness.cancel("a")
    for _ in range(2):
        assigned(harness, "b", (0,))
        harness.fail("b")
    assert harness.state_of("a") is JobState.CANCELLED
    assert harness.state_of("b") is JobState.FAILED


def test_a_cycle_decides_and_commits() -> None:
    fleet = fleet_of(pool("a100", nodes=4), topology={"block": 2, "rack": 1})
    tenants = (tenant("acme", quota={"a100-80gb/owned": 16}), queue("research", parent="acme"))
    harness = SchedulerHarness(state_of(fleet, tenants))
    harness.submit(job("train", gpus=8, tasks=2, hours=2), priority=1)
    harness.submit(job("next", gpus=8))
    harness.cycle()
    assert harness.started_now() == ["train"]
    assert harness.nodes_of("train") == ["a100-0001", "a100-0002"]
    hold = harness.hold_of("next")
    assert hold is not None and hold.head == "next"
    assert harness.hold_of("train") is None
    harness.start_all().advance(HOUR_MS).finish("train").cycle()
    assert harness.running() == ["next"]
    assert (harness.preempted_now(), harness.claimed_now()) == ([], [])

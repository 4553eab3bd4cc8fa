"""The ledger bills what the scheduler's placement price predicts."""

from __future__ import annotations

import pytest

from bursar.accounting.ledger.entry import AccountKind, kind_of
from bursar.accounting.ledger.ledger import Ledger
from bursar.model.event import FleetDeclared
from bursar.model.jobs.job import JobSpec
from bursar.model.units import HOUR_MS, MINUTE_MS
from tests.support import (
    SchedulerHarness,
    fleet_of,
    gang,
    group,
    job,
    mig_job,
    mps_job,
    pool,
    queue,
    state_of,
)
from tests.support.book_views import by_job

ODD = pool("odd", nodes=3, gpus=6, cpu=100, memory_gib=700, usd_per_node_hour=17.123457)
PLAIN = pool("odd", nodes=3, gpus=0, cpu=100, memory_gib=700, usd_per_node_hour=3.333333)

ALONE: dict[str, JobSpec] = {
    "a whole node": job("a", gpus=6),
    "some GPUs": job("a", gpus=5, cpu=3, memory_gib=7),
    "mostly CPUs": job("a", gpus=1, cpu=77),
    "mostly memory": job("a", gpus=1, memory_gib=699),
    "a gang over all nodes": job("a", gpus=4, tasks=3, cpu=11),
    "several tasks to a node": job("a", gpus=1, tasks=5, cpu=1),
    "two groups on one node": gang("a", group("head", cpu=10), group("worker", 1, gpus=3)),
    "a slice": mig_job("a", "3g.40gb"),
    "slices": mig_job("a", "1g.10gb", tasks=5),
    "a share": mps_job("a", 35),
}


@pytest.mark.parametrize("run_ms", [1, 7 * MINUTE_MS + 11, 3 * HOUR_MS, 50 * HOUR_MS + 123_457])
@pytest.mark.parametrize("what", ALONE)
def test_a_job_alone_costs_its_placement_times_its_time(what: str, run_ms: int) -> None:
    assert_same(ODD, ALONE[what], run_ms)


@pytest.mark.parametrize("spec", [job("a", gpus=0, cpu=33), job("a", gpus=0, memory_gib=501)])
def test_nodes_without_gpus_have_the_same_price_too(spec: JobSpec) -> None:
    assert_same(PLAIN, spec, 5 * HOUR_MS + 17)


def assert_same(plan: object, spec: JobSpec, run_ms: int) -> None:
    fleet = fleet_of(plan)  # type: ignore[arg-type]
    harness = SchedulerHarness(state_of(fleet), now_ms=13 * MINUTE_MS)
    harness.submit(spec)
    harness.cycle()
    harness.start_all()
    placement = harness.placement_of("a")
    harness.advance(run_ms).finish("a")
    postings: list[int] = []
    ledger = Ledger(also=lambda entry: count(postings, kind_of(entry.debit)))
    declared = FleetDeclared(
        at_ms=0, fleet=fleet, tenants=(queue(),), policies=harness.state.policies
    )
    for event in (declared, *harness.log):
        ledger.apply(event)
    ledger.meter.close(harness.now_ms)
    predicted = placement.micro_usd_per_hour * run_ms / HOUR_MS
    rounded_down = len(placement.tasks) * run_ms / HOUR_MS
    """The hourly price of a task is a whole number; the ledger rounds only when it posts."""
    assert -len(postings) <= by_job(ledger.books)["a"] - predicted <= len(postings) + rounded_down


def count(postings: list[int], kind: AccountKind) -> None:
    if kind is AccountKind.USAGE:
        postings.append(1)

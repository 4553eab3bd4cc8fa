"""Two small fleets for tests of cycles."""

from __future__ import annotations

from bursar.model.tenants.policy import (
    Policies,
)
from bursar.model.units import HOUR_MS
from tests.support import (
    SchedulerHarness,
    fleet_of,
    job,
    pool,
    queue,
    state_of,
    tenant,
)

A100 = "a100-80gb/owned"
TEAMS = (
    tenant("acme"),
    queue("research", "acme", {A100: 16}),
    queue("product", "acme", {A100: 16}),
)


def one_queue(nodes: int = 2, *, policies: Policies | None = None) -> SchedulerHarness:
    """Nodes with 8 GPUs each and one queue without limits."""
    return SchedulerHarness(state_of(fleet_of(pool("a100", nodes)), policies=policies))


def shared(nodes: int = 4, *, policies: Policies | None = None) -> SchedulerHarness:
    """Two teams of one organisation, 16 GPUs each, which may borrow from each other."""
    return SchedulerHarness(state_of(fleet_of(pool("a100", nodes)), TEAMS, policies))


def reasons(harness: SchedulerHarness, job_id: str) -> list[type]:
    hold = harness.hold_of(job_id)
    assert hold is not None
    return [type(reason) for reason in hold.reasons]


def borrowed() -> SchedulerHarness:
    """Research has borrowed the whole fleet for an hour."""
    world = shared()
    world.submit(*(job(f"r{n}", gpus=8, queue="research") for n in range(4)))
    world.cycle()
    return world.start_all().advance(HOUR_MS)

"""Changes of a fleet for a what-if."""

from __future__ import annotations

from bursar.model.tenants.policy import Policies
from bursar.simulate.named_policies import RunTimeSource
from bursar.simulate.runs.fleet_overrides import change
from bursar.simulate.runs.run_request import FleetChoice
from tests.support import fleet_of, pool, queue


def changed(*changes: str) -> FleetChoice:
    choice = FleetChoice(
        name="fleet", fleet=fleet_of(pool("a100")), tenants=(queue(),), policies=Policies()
    )
    for text in changes:
        choice = change(choice, text)
    return choice


def test_a_second_policy_change_keeps_the_estimates_of_the_order() -> None:
    assert changed("policy.order=qssf").estimates is RunTimeSource.LEARNED
    both = changed("policy.order=qssf", "policy.backfill=easy")
    assert both.estimates is RunTimeSource.LEARNED
    assert both.policies.backfill.reservations == 1
    assert changed("policy.order=qssf", "policy.estimates=none").estimates is RunTimeSource.NONE

"""Governance rules at submission: findings in dry-run, excluded pools when enforced, or a refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.config import parse_fleet
from bursar.config.fleet.fleet_writer import write_fleet
from bursar.core.admission.eligible_pools import eligible_pools
from bursar.core.state.fleet_state import FleetState
from bursar.governance.admission import apply_governance
from bursar.model.errors import UserError
from bursar.model.event import JobSubmitted
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobSpec
from bursar.model.tenants.governance import (
    Governance,
    IdleNodes,
    ModelRestriction,
    RateCeiling,
    RightSize,
    RuleMode,
    SpotMandatory,
)
from tests.support import SchedulerHarness, fleet_of, job, pool, state_of, submission

ENFORCE = RuleMode.ENFORCE
ALL_MARKETS = (Market.OWNED, Market.SPOT, Market.ON_DEMAND)


def state_under(rules: Governance) -> FleetState:
    fleet = fleet_of(
        pool("owned-a100", 2, usd_per_node_hour=16.0),
        pool("spot-h100", 2, model="h100-80gb", market=Market.SPOT, usd_per_node_hour=24.0),
        pool("bought-h100", 2, model="h100-80gb", market=Market.ON_DEMAND, usd_per_node_hour=80.0),
    )
    state = state_of(fleet)
    state.policies = replace(state.policies, governance=rules)
    return state


def admit(state: FleetState, spec: JobSpec, **labels: str) -> tuple[JobSubmitted, list[str]]:
    (admitted,), findings = apply_governance(
        (submission(state, spec, spec.name, 0),), labels, state
    )
    return admitted, [str(one) for one in findings]


def test_without_rules_there_are_no_findings() -> None:
    admitted, findings = admit(state_under(Governance()), job(markets=ALL_MARKETS))
    assert (admitted.spec.constraints.closed_pools, findings) == ((), [])


def test_a_dry_run_rule_reports_and_excludes_no_pool() -> None:
    state = state_under(Governance(spot_mandatory=SpotMandatory(owner="ops")))
    admitted, findings = admit(state, job("train", markets=ALL_MARKETS))
    assert admitted.spec.constraints.closed_pools == ()
    assert findings == [
        "job 'train' could run on-demand on bought-h100, which is for the priority classes high or "
        "critical; its own is normal (rule spot-mandatory, owned by ops). Write a priority class that "
        "is exempt."
    ]
    assert admit(state, job("urgent", markets=ALL_MARKETS, priority_class="critical"))[1] == []


def test_an_enforced_rule_excludes_pools_and_the_job_runs_on_others() -> None:
    state = state_under(Governance(spot_mandatory=SpotMandatory(mode=ENFORCE)))
    spec = job("train", gpus=8, markets=ALL_MARKETS, models=("h100-80gb",))
    admitted, findings = admit(state, spec)
    assert admitted.spec.constraints.closed_pools == ("bought-h100",)
    assert len(findings) == 1
    harness = SchedulerHarness(state)
    for number in range(3):
        harness.apply(replace(admitted, job_id=f"train-{number}"))
    harness.cycle()
    assert [
        one.placement.pool for one in map(harness.state.jobs.get, harness.started_now()) if one
    ] == [
        "spot-h100",
        "spot-h100",
    ]


def test_a_job_without_an_eligible_pool_is_refused_with_rule_owner_and_fix() -> None:
    state = state_under(Governance(spot_mandatory=SpotMandatory(mode=ENFORCE, owner="finops")))
    with pytest.raises(UserError, match="bought-h100") as refused:
        admit(state, job("train", markets=(Market.ON_DEMAND,)))
    assert refused.value.code == "policy-spot-mandatory"
    assert "use_spot: true" in refused.value.fix
    assert "finops" in refused.value.fix


@pytest.mark.parametrize(
    ("gpus", "closed"), [(1, ()), (4, ("bought-h100",)), (8, ("bought-h100",))]
)
def test_a_limit_on_the_hourly_cost(gpus: int, closed: tuple[str, ...]) -> None:
    rules = Governance(rate_ceiling=RateCeiling(micro_usd_per_hour=24_000_000, mode=ENFORCE))
    admitted, findings = admit(state_under(rules), job("big", gpus=gpus, markets=ALL_MARKETS))
    assert admitted.spec.constraints.closed_pools == closed
    assert bool(findings) == bool(closed)


def test_two_rules_together_exclude_every_pool() -> None:
    """Neither rule alone excludes every pool; the one that excluded the last pool is named."""
    rules = Governance(
        spot_mandatory=SpotMandatory(mode=ENFORCE),
        rate_ceiling=RateCeiling(micro_usd_per_hour=15_000_000, mode=ENFORCE),
    )
    with pytest.raises(UserError) as refused:
        admit(state_under(rules), job("big", gpus=8, markets=ALL_MARKETS))
    assert refused.value.code == "policy-rate-ceiling"
    assert "$16.00 an hour or more" in refused.value.problem


def test_models_are_restricted_for_jobs_with_a_label() -> None:
    rule = ModelRestriction(models=("h100-80gb",), label="kind=interactive", mode=ENFORCE)
    state = state_under(Governance(restricted_models=(rule,)))
    admitted, _ = admit(state, job("notebook", markets=ALL_MARKETS), kind="interactive")
    assert admitted.spec.constraints.closed_pools == ("bought-h100", "spot-h100")
    admitted, findings = admit(state, job("train", markets=ALL_MARKETS), kind="batch")
    assert (admitted.spec.constraints.closed_pools, findings) == ((), [])


def test_eligible_pools_are_listed_with_their_price() -> None:
    found = eligible_pools(job(gpus=4, markets=ALL_MARKETS), state_under(Governance()))
    assert [(one.pool, one.model, one.micro_usd_per_hour) for one in found] == [
        ("bought-h100", "h100-80gb", 40_000_000),
        ("owned-a100", "a100-80gb", 8_000_000),
        ("spot-h100", "h100-80gb", 12_000_000),
    ]


FLEET = """
clusters: {here: {engine: local, nodes: 1, gpus: t4 x 4}}
tenants: {team: {}}
policies:
  governance:
    spot_mandatory: {mode: enforce, owner: finops, exempt_priorities: [critical]}
    rate_ceiling: {usd_per_hour: 40.5}
    restricted_models: [{models: [H100], label: kind=interactive}]
    idle_nodes: {after: 30 min}
    right_size: {runs: 5}
"""


def test_rules_are_read_from_the_fleet_file_and_written_back() -> None:
    read = parse_fleet({"fleet.yaml": FLEET})
    assert read.policies.governance == Governance(
        spot_mandatory=SpotMandatory(mode=ENFORCE, owner="finops", exempt_priorities=("critical",)),
        rate_ceiling=RateCeiling(micro_usd_per_hour=40_500_000),
        restricted_models=(ModelRestriction(models=("h100-80gb",), label="kind=interactive"),),
        idle_nodes=IdleNodes(after_ms=30 * 60_000),
        right_size=RightSize(runs=5),
    )
    assert parse_fleet({"again.yaml": write_fleet(read)}) == read


@pytest.mark.parametrize(
    ("was", "now", "code", "words"),
    [
        ("usd_per_hour: 40.5", "mode: enforce", "missing-key", "usd_per_hour"),
        ("usd_per_hour: 40.5", "usd_per_hour: 0", "out-of-range", "usd_per_hour is 0"),
        ("usd_per_hour: 40.5", "usd_per_hour: lots", "wrong-type", "rate_ceiling"),
        ("[critical]", "[urgent]", "unknown-priority-class", "urgent"),
        ("[H100]", "[H1000]", "unknown-gpu-model", "H1000"),
        ("kind=interactive", "interactive", "not-a-label", "interactive"),
        ("after: 30 min", "", "missing-key", "after"),
        ("mode: enforce", "mode: maybe", "unknown-choice", "maybe"),
    ],
)
def test_an_invalid_rule_is_rejected_with_its_location(
    was: str, now: str, code: str, words: str
) -> None:
    with pytest.raises(UserError) as refused:
        parse_fleet({"fleet.yaml": FLEET.replace(was, now)})
    assert words in refused.value.problem
    assert "fleet.yaml:" in refused.value.problem
    assert refused.value.code == code


def test_a_gang_without_an_eligible_pool_for_its_anchors_is_refused() -> None:
    state = state_under(Governance(spot_mandatory=SpotMandatory(mode=ENFORCE)))
    spec = job("mixed", tasks=4, markets=ALL_MARKETS, models=("h100-80gb",), anchors_percent=50)
    options = {one.pool: one for one in eligible_pools(spec, state)}
    assert options["spot-h100"].anchors == ("bought-h100",)
    assert options["spot-h100"].micro_usd_per_hour == 26 * 1_000_000
    with pytest.raises(UserError, match="bought-h100"):
        admit(state, spec)

"""Governance rules on live state: at submission, and on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bursar.accounting.ledger.ledger import Ledger
from bursar.core.admission.eligible_pools import eligible_pools
from bursar.core.state.fleet_state import FleetState
from bursar.governance.admission import Applicant, admit, findings_of
from bursar.governance.finding import Finding
from bursar.governance.fleet_findings import EmptyNode
from bursar.model.event import JobSubmitted
from bursar.model.jobs.job import JobSpec

Members = tuple[JobSubmitted, ...]


def apply_governance(
    members: Members, labels: Mapping[str, str], state: FleetState
) -> tuple[Members, tuple[Finding, ...]]:
    """Apply the rules to a job or array; returns its members as amended, and the findings."""
    rules = state.policies.governance
    if not rules.has_admission_rules:
        return members, ()
    spec = members[0].spec
    applicant = Applicant(spec=spec, labels=labels, options=eligible_pools(spec, state))
    constraints, findings = admit(rules, applicant)
    if constraints == spec.constraints:
        return members, findings
    return tuple(
        replace(one, spec=replace(one.spec, constraints=constraints)) for one in members
    ), findings


def findings_on(spec: JobSpec, labels: Mapping[str, str], state: FleetState) -> tuple[Finding, ...]:
    """Findings of the current rules on a job that was submitted before."""
    rules = state.policies.governance
    if not rules.has_admission_rules:
        return ()
    applicant = Applicant(spec=spec, labels=labels, options=eligible_pools(spec, state))
    return tuple(findings_of(rules, applicant))


def empty_nodes(ledger: Ledger, state: FleetState) -> list[EmptyNode]:
    """Nodes that are neither used nor reserved, with the time since when."""
    return [
        EmptyNode(
            node=meter.id,
            pool=meter.shape.name,
            market=meter.shape.market,
            since_ms=meter.empty_since_ms,
            micro_usd_per_hour=meter.price,
        )
        for name, meter in sorted(ledger.meter.nodes.items())
        if not meter.held and not meter.reserved and name in state.pool_of_node
    ]

"""Applies the governance rules to a submitted job.

An enforced rule closes pools to the job; the job is rejected only if no pool remains. In ``dry-run`` the
same pools are reported, but stay open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bursar.core.admission.eligible_pools import EligiblePool, eligible_pools
from bursar.core.state.fleet_state import FleetState
from bursar.governance.finding import Finding
from bursar.model.errors import UserError
from bursar.model.event import JobSubmitted
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobSpec
from bursar.model.tenants.governance import Governance, RateCeiling, RuleMode, SpotMandatory
from bursar.model.units import write_usd

Members = tuple[JobSubmitted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applicant:
    """A submitted job: its spec, its labels, and the pools that could run it."""

    spec: JobSpec
    labels: Mapping[str, str]
    options: Sequence[EligiblePool]


def apply_governance(
    members: Members, labels: Mapping[str, str], state: FleetState
) -> tuple[Members, tuple[Finding, ...]]:
    """Applies the rules to a job or array: its members as amended, and the findings; or rejects it."""
    spec, rules = members[0].spec, state.policies.governance
    if not rules.has_admission_rules:
        return members, ()
    applicant = Applicant(spec=spec, labels=labels, options=eligible_pools(spec, state))
    findings = tuple(_findings(rules, applicant))
    closed = _closed_pools(applicant, findings)
    if not closed:
        return members, findings
    constraints = replace(spec.constraints, closed_pools=tuple(sorted(closed)))
    return tuple(
        replace(one, spec=replace(one.spec, constraints=constraints)) for one in members
    ), findings


def findings_on(spec: JobSpec, labels: Mapping[str, str], state: FleetState) -> tuple[Finding, ...]:
    """Findings of the current rules on a job that was submitted before."""
    rules = state.policies.governance
    if not rules.has_admission_rules:
        return ()
    applicant = Applicant(spec=spec, labels=labels, options=eligible_pools(spec, state))
    return tuple(_findings(rules, applicant))


def _closed_pools(applicant: Applicant, findings: Sequence[Finding]) -> set[str]:
    """The pools that enforced rules close; rejects the job at the rule that leaves it none."""
    closed: set[str] = set()
    for finding in findings:
        if finding.mode is RuleMode.ENFORCE:
            closed |= finding.pools
            if applicant.options and all(_is_closed(one, closed) for one in applicant.options):
                owner = f"The rule is {finding.rule}; its owner, {finding.owner}, can change it."
                raise UserError(
                    f"{finding.subject} {finding.text}.",
                    fix=f"{finding.fix} {owner}",
                    code=finding.code,
                )
    return closed


def _is_closed(option: EligiblePool, closed: set[str]) -> bool:
    """Whether the pool is closed, or every pool for its anchors."""
    no_anchors = bool(option.anchors) and closed.issuperset(option.anchors)
    return option.pool in closed or no_anchors


def _findings(rules: Governance, applicant: Applicant) -> Iterator[Finding]:
    """Findings of all rules, in the order of the model."""
    if rules.spot_mandatory is not None:
        yield from _spot_mandatory(rules.spot_mandatory, applicant)
    if rules.rate_ceiling is not None:
        yield from _rate_ceiling(rules.rate_ceiling, applicant)
    yield from _restricted_models(rules, applicant)


def _subject(applicant: Applicant) -> str:
    return f"job {applicant.spec.name[:60]!r}"


def _spot_mandatory(rule: SpotMandatory, applicant: Applicant) -> Iterator[Finding]:
    spec = applicant.spec
    on_demand = [one for one in applicant.options if one.market is Market.ON_DEMAND]
    if not on_demand or spec.priority_class in rule.exempt_priorities:
        return
    use_spot = (
        "" if Market.SPOT in spec.constraints.markets else "use_spot: true and checkpoint, or "
    )
    exempt = " or ".join(rule.exempt_priorities) or "none"
    yield Finding(
        rule="spot-mandatory",
        mode=rule.mode,
        owner=rule.owner,
        subject=_subject(applicant),
        text=(
            f"could run on-demand on {_names(on_demand)}, which is for the priority classes "
            f"{exempt}; its own is {spec.priority_class}"
        ),
        fix=f"Write {use_spot}a priority class that is exempt.",
        micro_usd_per_hour=min(one.micro_usd_per_hour for one in on_demand),
        pools=frozenset(one.pool for one in on_demand),
    )


def _rate_ceiling(rule: RateCeiling, applicant: Applicant) -> Iterator[Finding]:
    too_expensive = [
        one for one in applicant.options if one.micro_usd_per_hour > rule.micro_usd_per_hour
    ]
    if not too_expensive or applicant.spec.priority_class in rule.exempt_priorities:
        return
    cheapest = min(too_expensive, key=lambda one: (one.micro_usd_per_hour, one.pool))
    yield Finding(
        rule="rate-ceiling",
        mode=rule.mode,
        owner=rule.owner,
        subject=_subject(applicant),
        text=(
            f"would cost {write_usd(cheapest.micro_usd_per_hour)} an hour or more "
            f"on {_names(too_expensive)}; "
            f"no job may cost more than {write_usd(rule.micro_usd_per_hour)} an hour"
        ),
        fix="Ask for fewer or smaller GPUs, or for a cheaper model.",
        micro_usd_per_hour=cheapest.micro_usd_per_hour - rule.micro_usd_per_hour,
        pools=frozenset(one.pool for one in too_expensive),
    )


def _restricted_models(rules: Governance, applicant: Applicant) -> Iterator[Finding]:
    for rule in rules.restricted_models:
        key, _, value = rule.label.partition("=")
        if applicant.labels.get(key) != value:
            continue
        forbidden = [one for one in applicant.options if one.model in rule.models]
        if forbidden:
            others = sorted(
                {one.model for one in applicant.options if one.model} - set(rule.models)
            )
            instead = f"Ask for {' or '.join(others)}" if others else "Ask for another model"
            yield Finding(
                rule="restricted-models",
                mode=rule.mode,
                owner=rule.owner,
                subject=_subject(applicant),
                text=(
                    f"could run on {_names(forbidden)} with {' or '.join(rule.models)}, which jobs "
                    f"labelled {rule.label} may not use"
                ),
                fix=f"{instead}, or drop the label if it is not true.",
                pools=frozenset(one.pool for one in forbidden),
            )


def _names(options: Sequence[EligiblePool]) -> str:
    return ", ".join(one.pool for one in options)

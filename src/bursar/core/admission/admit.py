"""The door: what is let in is right, and what is not is told what is wrong and what to write.

Behind it, everything may trust its input. See README.md for the words, the flow and every code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.checked_jobs import CheckedJobs
from bursar.core.admission.feasibility_rules import room_problems
from bursar.core.admission.fleet_rules import fleet_problems
from bursar.core.admission.job_rules import JOB_RULES, job_ids
from bursar.core.admission.placement_rules import PLACE_RULES
from bursar.core.admission.problem import refuse_if_any
from bursar.core.admission.tenant_rules import policy_problems, tenant_problems
from bursar.core.admission.value_rules import value_problems
from bursar.core.state.fleet_state import FleetState
from bursar.model.event import JobSubmitted
from bursar.model.fleet.fleet import Fleet
from bursar.model.jobs.job import JobSpec
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant

__all__ = [
    "AdmissionRequest",
    "CheckedJobs",
    "check_fleet",
    "check_job",
    "submissions",
    "submissions_beside",
]


def check_fleet(fleet: Fleet, tenants: Iterable[Tenant], policies: Policies) -> None:
    """Refuse a fleet, a tenant tree or policies on which a state could not be built."""
    tree = tuple(tenants)
    refuse_if_any("fleet", value_problems(fleet))
    refuse_if_any("fleet", fleet_problems(fleet))
    for index, tenant in enumerate(tree):
        refuse_if_any("tenants", value_problems(tenant, f"tenants[{index}]"))
    refuse_if_any("tenants", tenant_problems(tree, {pool.flavor for pool in fleet.pools}))
    refuse_if_any("policies", value_problems(policies))
    refuse_if_any("policies", policy_problems(policies))


def check_job(arrival: AdmissionRequest) -> None:
    """Refuse a job that is wrong in itself, names what does not exist, or could never run here.

    In that order, and one wall at a time: numbers that make no sense would only lead to nonsense
    about pools.
    """
    subject = f"job {str(arrival.spec.name)[:60]!r}"
    refuse_if_any(subject, value_problems(arrival.spec))
    rules = (*JOB_RULES, *PLACE_RULES)
    refuse_if_any(subject, (problem for rule in rules for problem in rule(arrival)))
    refuse_if_any(subject, room_problems(arrival))


def submissions(
    spec: JobSpec, job_id: str, at_ms: int, state: FleetState, known_models: Collection[str]
) -> tuple[JobSubmitted, ...]:
    """Check a job and give the events that bring it in: one, or one for each member of an array.

    The members of the array ``sweep`` are ``sweep[0]`` and so on, jobs of their own from then on.
    """
    arrival = AdmissionRequest(
        spec=spec, job_id=job_id, at_ms=at_ms, state=state, known_models=known_models
    )
    check_job(arrival)
    return submission_events(arrival)


def submissions_beside(arrival: AdmissionRequest, others: CheckedJobs) -> tuple[JobSubmitted, ...]:
    """The same for one of many: what is like another that was checked is not checked again."""
    if not others.has(arrival):
        check_job(arrival)
        others.add(arrival.spec)
    return submission_events(arrival)


def submission_events(arrival: AdmissionRequest) -> tuple[JobSubmitted, ...]:
    """The events of a job that was checked."""
    spec, at_ms, state = arrival.spec, arrival.at_ms, arrival.state
    priority = state.policies.priority_classes[spec.priority_class]
    is_array = spec.array_size > 1
    return tuple(
        JobSubmitted(
            at_ms=at_ms,
            job_id=member,
            spec=replace(spec, name=f"{spec.name}[{index}]", array_size=1) if is_array else spec,
            priority=priority,
        )
        for index, member in enumerate(job_ids(arrival.job_id, spec.array_size))
    )

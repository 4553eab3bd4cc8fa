"""Checks jobs and fleets before they enter the state; later code trusts its input.

README.md lists the steps and every error code.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from operator import attrgetter

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.feasibility_rules import feasibility_problems
from bursar.core.admission.fleet_rules import fleet_problems
from bursar.core.admission.job_rules import JOB_RULES, job_id_is_free, job_ids
from bursar.core.admission.placement_rules import PLACEMENT_RULES
from bursar.core.admission.problem import Problem, raise_problems
from bursar.core.admission.tenant_rules import policy_problems, tenant_problems
from bursar.core.admission.value_rules import are_valid_names, value_problems
from bursar.model.event import JobSubmitted
from bursar.model.fleet.fleet import Fleet
from bursar.model.jobs.job import JobSpec
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant

NAME_FIELDS = ("name", "similarity_keys")
"""Fields that are checked for each job: no rule combines them with another field."""

_cache_key = attrgetter(*(one.name for one in fields(JobSpec) if one.name not in NAME_FIELDS))


def check_fleet(fleet: Fleet, tenants: Iterable[Tenant], policies: Policies) -> None:
    """Rejects a fleet, a tenant tree or policies from which no state can be built."""
    for subject, problems in fleet_steps(fleet, tuple(tenants), policies):
        raise_problems(subject, problems)


def fleet_steps(
    fleet: Fleet, tenants: Sequence[Tenant], policies: Policies
) -> Iterator[tuple[str, Iterable[Problem]]]:
    """The steps of the check, with what each is about; a step relies on those before it."""
    yield "fleet", value_problems(fleet)
    yield "fleet", fleet_problems(fleet)
    for index, tenant in enumerate(tenants):
        yield "tenants", value_problems(tenant, f"tenants[{index}]")
    yield "tenants", tenant_problems(tenants, {pool.flavor for pool in fleet.pools})
    yield "policies", value_problems(policies)
    yield "policies", policy_problems(policies)


def check_job(request: AdmissionRequest) -> None:
    """Rejects a job that has invalid values, names unknown things, or could never run here."""
    raise_problems(f"job {str(request.spec.name)[:60]!r}", job_problems(request))


def job_problems(request: AdmissionRequest) -> tuple[Problem, ...]:
    """The problems of the first step that finds any: later steps rely on earlier ones."""
    rules = (*JOB_RULES, *PLACEMENT_RULES)
    for step in (
        value_problems(request.spec),
        (problem for rule in rules for problem in rule(request)),
        feasibility_problems(request),
    ):
        if problems := tuple(step):
            return problems
    return ()


class CheckedJobs:
    """Specs that passed admission: jobs of a batch that differ only in name are checked once.

    It holds for one state at one time. A job with dependencies is always checked in full.
    """

    def __init__(self) -> None:
        self._valid: set[Hashable] = set()

    def has(self, request: AdmissionRequest) -> bool:
        """Whether an identical spec is valid; raises ``UserError`` if the job's id is taken."""
        spec = request.spec
        if spec.depends_on or not are_valid_names((spec.name, *spec.similarity_keys)):
            return False
        try:
            if _cache_key(spec) not in self._valid:
                return False
        except TypeError:  # An unhashable value has the wrong type: the full check reports it.
            return False
        raise_problems(f"job {spec.name[:60]!r}", job_id_is_free(request))
        return True

    def add(self, spec: JobSpec) -> None:
        self._valid.add(_cache_key(spec))


def submissions(
    request: AdmissionRequest, checked: CheckedJobs | None = None
) -> tuple[JobSubmitted, ...]:
    """Checks a job and returns its events: one, or one for each member of an array.

    The members of the array ``sweep`` are the independent jobs ``sweep[0]`` and so on. A job like one
    in ``checked`` is not checked again.
    """
    if checked is None or not checked.has(request):
        check_job(request)
        if checked is not None:
            checked.add(request.spec)
    spec = request.spec
    priority = request.state.policies.priority_classes[spec.priority_class]
    is_array = spec.array_size > 1
    return tuple(
        JobSubmitted(
            at_ms=request.at_ms,
            job_id=member,
            spec=replace(spec, name=f"{spec.name}[{index}]", array_size=1) if is_array else spec,
            priority=priority,
        )
        for index, member in enumerate(job_ids(request.job_id, spec.array_size))
    )

"""The door: what is let in is right, and what is not is told what is wrong and what to write.

Behind it, everything may trust its input. See README.md for the words, the flow and every code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from bursar.core.admission.alike_jobs import AlikeJobs
from bursar.core.admission.arrival import Arrival
from bursar.core.admission.fleet_rules import fleet_problems
from bursar.core.admission.job_rules import JOB_RULES, job_ids
from bursar.core.admission.partition_rules import partition_problems
from bursar.core.admission.place_rules import PLACE_RULES
from bursar.core.admission.problem import refuse_if_any
from bursar.core.admission.room_rules import room_problems
from bursar.core.admission.soundness import is_sound
from bursar.core.admission.tenant_rules import policy_problems, tenant_problems
from bursar.core.admission.values import value_problems
from bursar.core.state import FleetState
from bursar.model.event import GpuPartitioned, JobSubmitted
from bursar.model.fleet import Fleet, Node
from bursar.model.job import JobSpec
from bursar.model.policy import Policies
from bursar.model.tenant import Tenant

__all__ = [
    "AlikeJobs",
    "Arrival",
    "check_fleet",
    "check_job",
    "check_node",
    "check_partition",
    "check_tenant",
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


def check_tenant(tenant: Tenant, state: FleetState) -> None:
    """Refuse a new or changed tenant with which the tree would no longer be one."""
    refuse_if_any(f"tenant {tenant.name!r}", value_problems(tenant))
    tree = {**state.tenants, tenant.name: tenant}
    flavors = {pool.spec.flavor for pool in state.pools.values()}
    refuse_if_any(f"tenant {tenant.name!r}", tenant_problems(tuple(tree.values()), flavors))


def check_node(node: Node, state: FleetState) -> None:
    """Refuse a new node that has no pool, no place in the topology, or the id of another."""
    subject = f"node {node.id!r}"
    refuse_if_any(subject, value_problems(node))
    taken = (node,) if node.id in state.pool_of_node else ()
    alone = Fleet(
        clusters=tuple(state.clusters.values()),
        pools=tuple(pool.spec for pool in state.pools.values()),
        nodes=(node, *taken),
    )
    refuse_if_any(subject, fleet_problems(alone))


def check_partition(event: GpuPartitioned, state: FleetState) -> None:
    """Refuse a MIG layout that the GPU cannot have, or cannot have now."""
    refuse_if_any("partition", value_problems(event))
    refuse_if_any("partition", partition_problems(event, state))


def check_job(arrival: Arrival) -> None:
    """Refuse a job that is wrong in itself, names what does not exist, or could never run here.

    In that order, and one wall at a time: numbers that make no sense would only lead to nonsense
    about pools.
    """
    subject = f"job {str(arrival.spec.name)[:60]!r}"
    if not is_sound(arrival.spec):
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
    arrival = Arrival(spec=spec, job_id=job_id, at_ms=at_ms, state=state, known_models=known_models)
    check_job(arrival)
    return brought_in(arrival)


def submissions_beside(arrival: Arrival, others: AlikeJobs) -> tuple[JobSubmitted, ...]:
    """The same for one of many: what is like another that was checked is not checked again."""
    if not others.has(arrival):
        check_job(arrival)
        others.add(arrival.spec)
    return brought_in(arrival)


def brought_in(arrival: Arrival) -> tuple[JobSubmitted, ...]:
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

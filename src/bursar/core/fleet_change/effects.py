"""Effects of a new fleet declaration on jobs: which lose their nodes, which could never run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.feasibility_rules import feasibility_problems
from bursar.core.admission.job_rules import mig_profiles_exist
from bursar.core.admission.placement_rules import PLACEMENT_RULES
from bursar.core.quota.charge import quota_request
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.fleet.changed_nodes import changed_nodes
from bursar.model.fleet.fleet import Fleet
from bursar.model.lifecycle import LIVE
from bursar.model.reason import write_amount
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import FlavorResource, Tenant
from bursar.model.units import counted


class FleetDeclaration(Protocol):
    """A fleet, who shares it and by which rules: a fleet file, or the event that declared one."""

    @property
    def fleet(self) -> Fleet: ...
    @property
    def tenants(self) -> tuple[Tenant, ...]: ...
    @property
    def policies(self) -> Policies: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LostKind:
    """Jobs alike that could run and could not any more, and why."""

    jobs: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """``jobs_on`` has the jobs that lose their place, by node; ``over_quota`` has sentences."""

    jobs_on: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unfinished_jobs: Mapping[str, int] = field(default_factory=dict)
    over_quota: Mapping[tuple[str, FlavorResource], str] = field(default_factory=dict)
    never_again: tuple[LostKind, ...] = ()
    could_run: int = 0

    def of_nodes(self, nodes: Iterable[str]) -> str:
        """What happens to the jobs on these nodes, in a sentence; empty when there are none."""
        busy = [node for node in nodes if node in self.jobs_on]
        jobs = {job for node in busy for job in self.jobs_on[node]}
        if not jobs:
            return ""
        stopped = counted(len(jobs), "job")
        return f"{stopped} on {len(busy):,} of these nodes would be stopped and wait again"


def effects_of(old: FleetDeclaration, new: FleetDeclaration, state: FleetState) -> Effects:
    """Everything that would happen to jobs if ``new`` took the place of ``old`` now."""
    after = FleetState(new.fleet, new.tenants, new.policies)
    jobs_on = _jobs_losing_their_place(old, new, state)
    stopped = {job for jobs in jobs_on.values() for job in jobs}
    unfinished: dict[str, int] = {}
    for record in state.jobs.values():
        unfinished[record.spec.queue] = unfinished.get(record.spec.queue, 0) + 1
    could_run, lost = _kinds_lost(state, after, stopped)
    return Effects(
        jobs_on=jobs_on,
        unfinished_jobs=unfinished,
        over_quota=dict(_over_quota(state, after)),
        never_again=tuple(lost),
        could_run=could_run,
    )


# -- places ----------------------------------------------------------------------------------------


def _jobs_losing_their_place(
    old: FleetDeclaration, new: FleetDeclaration, state: FleetState
) -> dict[str, frozenset[str]]:
    gone = changed_nodes(old.fleet, new.fleet)
    found: dict[str, set[str]] = {}
    for record in state.live():
        for task in record.placement.all_tasks if record.placement else ():
            if task.node in gone:
                found.setdefault(task.node, set()).add(record.id)
    return {node: frozenset(jobs) for node, jobs in sorted(found.items())}


# -- kinds that could never run any more -----------------------------------------------------------


def _kinds_lost(
    state: FleetState, after: FleetState, stopped: set[str]
) -> tuple[int, list[LostKind]]:
    """Judged once for each kind: by the same rules by which a new job would be refused at the door."""
    could_run = 0
    lost: list[LostKind] = []
    for records in _by_kind(state, stopped):
        first = records[0]
        if first.spec.queue not in after.tenants or not after.tenants[first.spec.queue].is_queue:
            continue
        if _why_never(first, state):
            continue
        could_run += len(records)
        reason = _why_never(first, after)
        if reason:
            lost.append(LostKind(jobs=tuple(record.id for record in records), reason=reason))
    return could_run, lost


def _by_kind(state: FleetState, stopped: set[str]) -> list[list[JobRecord]]:
    """Jobs that wait, or would wait again, with those of one kind together."""
    found: dict[object, list[JobRecord]] = {}
    for _, record in sorted(state.jobs.items()):
        if record.state not in LIVE or record.id in stopped:
            found.setdefault(record.backlog.key, []).append(record)
    return list(found.values())


def _why_never(record: JobRecord, state: FleetState) -> str:
    arrival = AdmissionRequest(
        spec=record.spec, job_id=record.id, at_ms=0, state=state, known_models=frozenset()
    )
    for rule in (mig_profiles_exist, *PLACEMENT_RULES, feasibility_problems):
        for problem in rule(arrival):
            return str(problem).rstrip(".")
    return ""


# -- quotas below use ------------------------------------------------------------------------------


def _over_quota(
    state: FleetState, after: FleetState
) -> Iterator[tuple[tuple[str, FlavorResource], str]]:
    """Tenants that hold more than their new quota. What is above it counts as borrowed from then on."""
    held = _held(state, after)
    for tenant in after.tenants.values():
        for key in tenant.quotas:
            mine = held.get((tenant.name, key), 0)
            quota = after.quota.subtree_quota(tenant.name, key)
            if mine <= quota:
                continue
            limit = tenant.quotas[key].borrowing_limit
            over = write_amount(key[1], mine - quota)
            text = f"holds {write_amount(key[1], mine)} now, {over} more than that; "
            if limit is not None and mine > quota + limit:
                text += "nothing more of it starts until it holds less"
            else:
                text += "that counts as borrowed and may be taken back"
            yield (tenant.name, key), text


def _held(state: FleetState, after: FleetState) -> dict[tuple[str, FlavorResource], int]:
    """What every tenant holds with all below it, of what will be limited."""
    found: dict[tuple[str, FlavorResource], int] = {}
    for record in state.live():
        if record.placement is None or record.spec.queue not in after.tenants:
            continue
        request: dict[FlavorResource, int] = {}
        for part in record.placement.parts:
            request |= quota_request(part, state.pools[part.pool].spec.gpu_model, after.limited)
        for name in (record.spec.queue, *after.quota.ancestors(record.spec.queue)):
            for key, amount in request.items():
                found[name, key] = found.get((name, key), 0) + amount
    return found

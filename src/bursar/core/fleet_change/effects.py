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
    """A fleet, its tenants and policies: a fleet file, or the event that declared one."""

    @property
    def fleet(self) -> Fleet: ...
    @property
    def tenants(self) -> tuple[Tenant, ...]: ...
    @property
    def policies(self) -> Policies: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LostKind:
    """Jobs of one kind that could run before but not any more, and the reason."""

    jobs: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Effects on jobs. ``jobs_on`` has the jobs that are stopped, by node; ``over_quota`` has sentences."""

    jobs_on: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unfinished_jobs: Mapping[str, int] = field(default_factory=dict)
    over_quota: Mapping[tuple[str, FlavorResource], str] = field(default_factory=dict)
    never_again: tuple[LostKind, ...] = ()
    could_run: int = 0

    def of_nodes(self, nodes: Iterable[str]) -> str:
        """A sentence on the jobs stopped on these nodes; empty if there are none."""
        busy = [node for node in nodes if node in self.jobs_on]
        jobs = {job for node in busy for job in self.jobs_on[node]}
        if not jobs:
            return ""
        stopped = counted(len(jobs), "job")
        return f"{stopped} on {len(busy):,} of these nodes would be stopped and queued again"


def effects_of(old: FleetDeclaration, new: FleetDeclaration, state: FleetState) -> Effects:
    """Effects on jobs if ``new`` replaced ``old`` now."""
    after = FleetState(new.fleet, new.tenants, new.policies)
    jobs_on = _stopped_jobs(old, new, state)
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


# -- stopped jobs ----------------------------------------------------------------------------------


def _stopped_jobs(
    old: FleetDeclaration, new: FleetDeclaration, state: FleetState
) -> dict[str, frozenset[str]]:
    changed = changed_nodes(old.fleet, new.fleet)
    jobs_by_node: dict[str, set[str]] = {}
    for record in state.live():
        for task in record.placement.all_tasks if record.placement else ():
            if task.node in changed:
                jobs_by_node.setdefault(task.node, set()).add(record.id)
    return {node: frozenset(jobs) for node, jobs in sorted(jobs_by_node.items())}


# -- kinds that could never run any more -----------------------------------------------------------


def _kinds_lost(
    state: FleetState, after: FleetState, stopped: set[str]
) -> tuple[int, list[LostKind]]:
    """Number of jobs that could run, and kinds that lost that, by the rules of admission."""
    could_run = 0
    lost: list[LostKind] = []
    for records in _by_kind(state, stopped):
        first = records[0]
        if first.spec.queue not in after.tenants or not after.tenants[first.spec.queue].is_queue:
            continue
        if _reason_never_fits(first, state):
            continue
        could_run += len(records)
        reason = _reason_never_fits(first, after)
        if reason:
            lost.append(LostKind(jobs=tuple(record.id for record in records), reason=reason))
    return could_run, lost


def _by_kind(state: FleetState, stopped: set[str]) -> list[list[JobRecord]]:
    """Waiting and stopped jobs, grouped by kind."""
    kinds: dict[object, list[JobRecord]] = {}
    for _, record in sorted(state.jobs.items()):
        if record.state not in LIVE or record.id in stopped:
            kinds.setdefault(record.backlog.key, []).append(record)
    return list(kinds.values())


def _reason_never_fits(record: JobRecord, state: FleetState) -> str:
    request = AdmissionRequest(
        spec=record.spec, job_id=record.id, at_ms=0, state=state, known_models=frozenset()
    )
    for rule in (mig_profiles_exist, *PLACEMENT_RULES, feasibility_problems):
        for problem in rule(request):
            return str(problem).rstrip(".")
    return ""


# -- quotas below usage ----------------------------------------------------------------------------


def _over_quota(
    state: FleetState, after: FleetState
) -> Iterator[tuple[tuple[str, FlavorResource], str]]:
    """Tenants that use more than their new quota. The excess counts as borrowed from then on."""
    usage = _usage(state, after)
    for tenant in after.tenants.values():
        for key in tenant.quotas:
            used = usage.get((tenant.name, key), 0)
            quota = after.quota.subtree_quota(tenant.name, key)
            if used <= quota:
                continue
            limit = tenant.quotas[key].borrowing_limit
            over = write_amount(key[1], used - quota)
            text = f"uses {write_amount(key[1], used)} now, {over} more than that; "
            if limit is not None and used > quota + limit:
                text += "none of its jobs starts until it uses less"
            else:
                text += "the excess counts as borrowed and may be reclaimed"
            yield (tenant.name, key), text


def _usage(state: FleetState, after: FleetState) -> dict[tuple[str, FlavorResource], int]:
    """Usage of every tenant and its subtree, of the resources limited afterwards."""
    usage: dict[tuple[str, FlavorResource], int] = {}
    for record in state.live():
        if record.placement is None or record.spec.queue not in after.tenants:
            continue
        request: dict[FlavorResource, int] = {}
        for part in record.placement.parts:
            request |= quota_request(part, state.pools[part.pool].spec.gpu_model, after.limited)
        for name in (record.spec.queue, *after.quota.ancestors(record.spec.queue)):
            for key, amount in request.items():
                usage[name, key] = usage.get((name, key), 0) + amount
    return usage

"""No tenant exceeds what its quota tree allows.

The rule is an invariant on sums. For a tenant:

- its *quota* is its nominal amount plus what its children lend it: their quota less what they retain;
- it *retains* what is above its lending limit (nothing, if it has none);
- its *usage* is that of its own jobs, plus what its children use above what they retain;
- at a root, usage must not exceed quota; below it, usage must not exceed quota plus borrowing limit.

Sums from the leaves up give every usage from scratch. Only decisions that increase a tenant's usage are
faults: usage from before a quota was lowered is not. Claims count as if their victims had ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from bursar.core.check.decisions_by_type import DecisionsByType
from bursar.core.check.fault import Fault
from bursar.core.check.gangs import gpu_milli_of
from bursar.core.quota.quota_tree import UNLIMITED
from bursar.core.state.fleet_state import FleetState
from bursar.model.jobs.attempt import Placement
from bursar.model.lifecycle import LIVE
from bursar.model.reason import write_amount
from bursar.model.tenants.tenant import CPU, GPU, MEMORY, BudgetAction, FlavorResource, Quota

NOTHING = Quota()
Amounts = Mapping[FlavorResource, int]


def quota_faults(
    state: FleetState, listing: DecisionsByType, recounted_jobs: int | None
) -> list[Fault]:
    """Compares usage after the decisions with quota, in the trees where jobs start.

    At most ``recounted_jobs`` running jobs are recounted from their placements, those of queues with
    starts first; the usage of other queues is read from the state. ``None`` recounts them all.
    """
    added = [
        (state.jobs[job_id].spec.queue, amounts_of(state, placement))
        for job_id, placement in listing.new_placements
        if job_id in state.jobs
    ]
    roots: dict[str, set[FlavorResource]] = {}
    for queue, amounts in added:
        if amounts and queue in state.tenants:
            roots.setdefault(_root_of(state, queue), set()).update(amounts)
    if not roots:
        return []
    children = children_of(state)
    usage = _QueueUsage(state, recounted_jobs)
    usage.sum_changes(listing, added)
    faults: list[Fault] = []
    for root, flavor_resources in sorted(roots.items()):
        for flavor_resource in sorted(flavor_resources):
            tree = TreeWalk(state, children, usage.before_and_after, flavor_resource)
            tree.walk(root)
            faults += tree.faults
    return faults


class _QueueUsage:
    """Usage of each queue of limited resources, before and after the decisions."""

    def __init__(self, state: FleetState, recounted_jobs: int | None) -> None:
        self._state = state
        self._jobs_to_recount = recounted_jobs
        self._running: dict[str, dict[FlavorResource, int] | None] = {}
        self._before: dict[tuple[str, FlavorResource], int] = {}
        self._after: dict[tuple[str, FlavorResource], int] = {}

    def sum_changes(self, listing: DecisionsByType, added: Sequence[tuple[str, Amounts]]) -> None:
        """Sums what claims and starts use, less what their victims free, before and after."""
        state, stopped = self._state, listing.stopped_jobs
        without_claim = {order.job_id for order in listing.starts} | set(listing.released)
        claims = [
            (record.spec.queue, record.claim)
            for job_id, record in sorted(state.claims.items())
            if record.claim is not None and job_id not in without_claim
        ]
        claimed = [(queue, amounts_of(state, claim.placement)) for queue, claim in claims]
        old = {one for _, claim in claims for one in claim.victims if self._is_leaving(one, ())}
        new = {one for order in listing.claims for one in order.victims}
        self._before = self._sum(claimed, old)
        leaving = old | {one for one in new if self._is_leaving(one, stopped)}
        self._after = self._sum([*claimed, *added], leaving)
        for queue in sorted({queue for queue, _ in added}):
            self._recount(queue)

    def _is_leaving(self, job_id: str, stopped: Collection[str]) -> bool:
        record = self._state.jobs.get(job_id)
        if record is None or record.state not in LIVE:
            return False
        return record.stop_requested or job_id in stopped

    def _sum(
        self, added: Iterable[tuple[str, Amounts]], leaving: Iterable[str]
    ) -> dict[tuple[str, FlavorResource], int]:
        sums: dict[tuple[str, FlavorResource], int] = {}
        for queue, amounts in added:
            for flavor_resource, amount in amounts.items():
                key = (queue, flavor_resource)
                sums[key] = sums.get(key, 0) + amount
        for job_id in leaving:
            record = self._state.jobs[job_id]
            if record.placement is not None:
                for flavor_resource, amount in amounts_of(self._state, record.placement).items():
                    key = (record.spec.queue, flavor_resource)
                    sums[key] = sums.get(key, 0) - amount
        return sums

    def _recount(self, queue: str) -> dict[FlavorResource, int] | None:
        """Usage of a queue's running jobs, or None if the recount limit is reached."""
        if queue not in self._running:
            records = self._state.running_in.get(queue, {})
            if self._jobs_to_recount is not None and len(records) > self._jobs_to_recount:
                self._running[queue] = None
            else:
                if self._jobs_to_recount is not None:
                    self._jobs_to_recount -= len(records)
                self._running[queue] = sum_up(
                    amounts_of(self._state, record.placement)
                    for record in records.values()
                    if record.placement is not None
                )
        return self._running[queue]

    def before_and_after(self, queue: str, flavor_resource: FlavorResource) -> tuple[int, int]:
        """Usage of a queue before and after the decisions."""
        counted = self._recount(queue)
        if counted is None:
            running = self._state.quota.usage(queue, flavor_resource)
        else:
            running = counted.get(flavor_resource, 0)
        key = (queue, flavor_resource)
        return running + self._before.get(key, 0), running + self._after.get(key, 0)


class TreeWalk:
    """Walks one tenant tree for one flavor-resource.

    ``usage_of`` returns the usage of a queue before and after the decisions.
    """

    def __init__(
        self,
        state: FleetState,
        children: Mapping[str | None, list[str]],
        usage_of: Callable[[str, FlavorResource], tuple[int, int]],
        flavor_resource: FlavorResource,
    ) -> None:
        self.state = state
        self.children = children
        self.usage_of = usage_of
        self.flavor_resource = flavor_resource
        self.faults: list[Fault] = []
        self.used: dict[str, int] = {}

    def walk(self, name: str) -> tuple[int, int, int]:
        """Returns what a tenant lends its parent, and its usage above what it retains, before and after."""
        tenant = self.state.tenants[name]
        own = tenant.quotas.get(self.flavor_resource, NOTHING)
        quota = own.nominal
        before = after = 0
        if tenant.is_queue:
            before, after = self.usage_of(name, self.flavor_resource)
        for child in self.children.get(name, ()):
            lent, child_before, child_after = self.walk(child)
            quota += lent
            before += child_before
            after += child_after
        quota = min(UNLIMITED, quota)
        self.used[name] = after
        limit = self._borrowing_limit(name)
        if limit is not None and after > before and after > quota + limit and quota < UNLIMITED:
            self._add_fault(name, (before, after), quota)
        retained = retained_quota(own, quota)
        lent = quota if own.lending_limit is None else min(quota, own.lending_limit)
        return lent, max(0, before - retained), max(0, after - retained)

    def _borrowing_limit(self, name: str) -> int | None:
        """Amount a tenant may use beyond its quota; 0 at a root or if a budget forbids it."""
        tenant = self.state.tenants[name]
        level = self.state.budgets.levels.get(name)
        step = (
            None if level is None or tenant.budget is None else tenant.budget.step_at(level.level)
        )
        if tenant.parent is None or (step is not None and step.action is not BudgetAction.NOTIFY):
            return 0
        return tenant.quotas.get(self.flavor_resource, NOTHING).borrowing_limit

    def _add_fault(self, name: str, used: tuple[int, int], quota: int) -> None:
        before, after = used
        flavor, resource = self.flavor_resource
        is_root = self.state.tenants[name].parent is None
        limit = None if is_root else self._borrowing_limit(name)
        borrow = "" if limit is None else f" and {write_amount(resource, limit)} to borrow"
        text = (
            f"{name} would use {write_amount(resource, after)} of {flavor} "
            f"(now {write_amount(resource, before)}); "
            f"it has {write_amount(resource, quota)}{borrow}"
        )
        self.faults.append(Fault("quota-exceeded", name, text))


def retained_quota(own: Quota, quota: int) -> int:
    """Share of a tenant's quota that it never lends to its parent."""
    if own.lending_limit is None or own.lending_limit >= quota:
        return 0
    return UNLIMITED if quota >= UNLIMITED else quota - own.lending_limit


def amounts_of(state: FleetState, placement: Placement) -> dict[FlavorResource, int]:
    """Usage of a placement, by flavor-resource that some tenant limits."""
    if placement.anchors is None:
        return _amounts_in_pool(state, placement)
    return sum_up(_amounts_in_pool(state, part) for part in placement.parts)


def _amounts_in_pool(state: FleetState, placement: Placement) -> dict[FlavorResource, int]:
    pool = state.pools.get(placement.pool)
    if pool is None:
        return {}
    sums = {GPU: 0, CPU: 0, MEMORY: 0}
    for task in placement.tasks:
        sums[GPU] += gpu_milli_of(task, pool.spec.gpu_model)
        sums[CPU] += task.cpu_milli
        sums[MEMORY] += task.memory_mib
    flavor = placement.flavor
    limited = state.limited
    return {
        (flavor, resource): amount
        for resource, amount in sums.items()
        if amount and (flavor, resource) in limited
    }


def sum_up(amounts: Iterable[Amounts]) -> dict[FlavorResource, int]:
    """Adds up amounts by flavor-resource."""
    sums: dict[FlavorResource, int] = {}
    for addend in amounts:
        for flavor_resource, amount in addend.items():
            sums[flavor_resource] = sums.get(flavor_resource, 0) + amount
    return sums


def children_of(state: FleetState) -> dict[str | None, list[str]]:
    """Direct children of each tenant, sorted by name."""
    children: dict[str | None, list[str]] = {}
    for name in sorted(state.tenants):
        children.setdefault(state.tenants[name].parent, []).append(name)
    return children


def _root_of(state: FleetState, name: str) -> str:
    parent = state.tenants[name].parent
    while parent is not None:
        name, parent = parent, state.tenants[parent].parent
    return name

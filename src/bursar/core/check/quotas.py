"""No tenant ends up with more than its tree of quotas allows.

The rule, stated as what must be true of sums rather than as what may still be added. For a tenant:

- its *quota* is its nominal amount and what its children lend it: theirs, less what they keep;
- it *keeps* what is above its lending limit (nothing, if it has none);
- its *use* is what runs in it, and what its children use above what they keep;
- at a root, use may not exceed quota; below it, use may not exceed quota and borrowing limit.

Adding up from the leaves gives every use from scratch. A promise breaks the rule only where it makes a
tenant's use grow: what ran before a quota was lowered is nobody's new fault. Kept places count as if
their victims had already made way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from bursar.core.check.decisions_by_type import DecisionsByType
from bursar.core.check.fault import Fault
from bursar.core.check.gangs import gpu_milli_of
from bursar.core.check.orders import HOLDS_ROOM
from bursar.core.quota.quota_tree import UNLIMITED
from bursar.core.state.fleet_state import FleetState
from bursar.model.jobs.attempt import Placement
from bursar.model.reason import write_amount
from bursar.model.tenants.tenant import CPU, GPU, MEMORY, BudgetAction, FlavorResource, Quota

NOTHING = Quota()
Amounts = Mapping[FlavorResource, int]


def quota_faults(
    state: FleetState, listing: DecisionsByType, recounted_jobs: int | None
) -> list[Fault]:
    """Compare what tenants would use with what they may, in the trees where something starts.

    At most ``recounted_jobs`` running jobs are counted from their placements, those of queues that
    gain first; what other queues hold is then read from the state. ``None`` counts them all.
    """
    promises = _Promises(state, listing)
    roots: dict[str, set[FlavorResource]] = {}
    for queue, amounts in promises.coming:
        if amounts and queue in state.tenants:
            roots.setdefault(_root_of(state, queue), set()).update(amounts)
    if not roots:
        return []
    children = children_of(state)
    held = _HeldNow(state, promises, recounted_jobs)
    found: list[Fault] = []
    for root, wanted in sorted(roots.items()):
        for flavor_resource in sorted(wanted):
            tree = TreeWalk(state, children, held.of, flavor_resource)
            tree.walk(root)
            found += tree.faults
    return found


class _Promises:
    """Whose quota is taken by what: kept places, starts, and those who make way for them."""

    def __init__(self, state: FleetState, listing: DecisionsByType) -> None:
        settled = {order.job_id for order in listing.starts} | set(listing.released)
        kept = [r for _, r in sorted(state.claims.items()) if r.id not in settled and r.claim]
        told = listing.told
        self.leaving_before = {
            victim
            for record in kept
            if record.claim is not None
            for victim in record.claim.victims
            if _leaves(state, victim, ())
        }
        self.leaving = self.leaving_before | {
            victim
            for order in listing.claims
            for victim in order.victims
            if _leaves(state, victim, told)
        }
        self.kept = [
            (record.spec.queue, amounts_of(state, record.claim.placement))
            for record in kept
            if record.claim is not None
        ]
        self.coming = [
            (state.jobs[job_id].spec.queue, amounts_of(state, placement))
            for job_id, placement in listing.promised
            if job_id in state.jobs
        ]


def _leaves(state: FleetState, job_id: str, told: Iterable[str]) -> bool:
    record = state.jobs.get(job_id)
    if record is None or record.state not in HOLDS_ROOM:
        return False
    return record.stop_requested or job_id in told


class _HeldNow:
    """What each queue holds of what somebody limits, before and after the decisions."""

    def __init__(self, state: FleetState, promises: _Promises, recounted_jobs: int | None) -> None:
        self._state = state
        self._left = recounted_jobs
        self._running: dict[str, dict[FlavorResource, int] | None] = {}
        self._before = self._changes(promises.kept, promises.leaving_before)
        self._after = self._changes([*promises.kept, *promises.coming], promises.leaving)
        for queue in sorted({queue for queue, _ in promises.coming}):
            self._recount(queue)

    def _changes(
        self, coming: Iterable[tuple[str, Amounts]], leaving: Iterable[str]
    ) -> dict[tuple[str, FlavorResource], int]:
        found: dict[tuple[str, FlavorResource], int] = {}
        for queue, amounts in coming:
            for flavor_resource, amount in amounts.items():
                key = (queue, flavor_resource)
                found[key] = found.get(key, 0) + amount
        for job_id in leaving:
            record = self._state.jobs[job_id]
            if record.placement is not None:
                for flavor_resource, amount in amounts_of(self._state, record.placement).items():
                    key = (record.spec.queue, flavor_resource)
                    found[key] = found.get(key, 0) - amount
        return found

    def _recount(self, queue: str) -> dict[FlavorResource, int] | None:
        """The sums of a queue's running jobs, or nothing when too many were counted already."""
        if queue not in self._running:
            records = self._state.running_in.get(queue, {})
            if self._left is not None and len(records) > self._left:
                self._running[queue] = None
            else:
                if self._left is not None:
                    self._left -= len(records)
                self._running[queue] = sum_up(
                    amounts_of(self._state, record.placement)
                    for record in records.values()
                    if record.placement is not None
                )
        return self._running[queue]

    def of(self, queue: str, flavor_resource: FlavorResource) -> tuple[int, int]:
        """What a queue uses before, and after."""
        counted = self._recount(queue)
        if counted is None:
            running = self._state.quota.usage(queue, flavor_resource)
        else:
            running = counted.get(flavor_resource, 0)
        key = (queue, flavor_resource)
        return running + self._before.get(key, 0), running + self._after.get(key, 0)


class TreeWalk:
    """One walk over one tree for one flavor-resource; ``held`` says what queues use, before and after."""

    def __init__(
        self,
        state: FleetState,
        children: Mapping[str | None, list[str]],
        held: Callable[[str, FlavorResource], tuple[int, int]],
        flavor_resource: FlavorResource,
    ) -> None:
        self.state = state
        self.children = children
        self.held = held
        self.flavor_resource = flavor_resource
        self.faults: list[Fault] = []
        self.used: dict[str, int] = {}

    def walk(self, name: str) -> tuple[int, int, int]:
        """What a tenant lends its parent, and what it uses above what it keeps, before and after."""
        tenant = self.state.tenants[name]
        own = tenant.quotas.get(self.flavor_resource, NOTHING)
        quota = own.nominal
        before = after = 0
        if tenant.is_queue:
            before, after = self.held(name, self.flavor_resource)
        for child in self.children.get(name, ()):
            lent, child_before, child_after = self.walk(child)
            quota += lent
            before += child_before
            after += child_after
        quota = min(UNLIMITED, quota)
        self.used[name] = after
        limit = self._borrowing_limit(name)
        if limit is not None and after > before and after > quota + limit and quota < UNLIMITED:
            self._blame(name, (before, after), quota)
        keeps = kept_quota(own, quota)
        lent = quota if own.lending_limit is None else min(quota, own.lending_limit)
        return lent, max(0, before - keeps), max(0, after - keeps)

    def _borrowing_limit(self, name: str) -> int | None:
        """What a tenant may hold beyond its quota: nothing at a root, or where a budget forbids it."""
        tenant = self.state.tenants[name]
        level = self.state.budgets.levels.get(name)
        step = (
            None if level is None or tenant.budget is None else tenant.budget.step_at(level.level)
        )
        if tenant.parent is None or (step is not None and step.action is not BudgetAction.NOTIFY):
            return 0
        return tenant.quotas.get(self.flavor_resource, NOTHING).borrowing_limit

    def _blame(self, name: str, used: tuple[int, int], quota: int) -> None:
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


def kept_quota(own: Quota, quota: int) -> int:
    """The part of a tenant's quota that its parent never sees."""
    if own.lending_limit is None or own.lending_limit >= quota:
        return 0
    return UNLIMITED if quota >= UNLIMITED else quota - own.lending_limit


def amounts_of(state: FleetState, placement: Placement) -> dict[FlavorResource, int]:
    """What a placement takes of each flavor-resource that some tenant limits."""
    if placement.anchors is None:
        return _amounts_of_part(state, placement)
    return sum_up(_amounts_of_part(state, part) for part in placement.parts)


def _amounts_of_part(state: FleetState, placement: Placement) -> dict[FlavorResource, int]:
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
    """All of these together."""
    found: dict[FlavorResource, int] = {}
    for one in amounts:
        for flavor_resource, amount in one.items():
            found[flavor_resource] = found.get(flavor_resource, 0) + amount
    return found


def children_of(state: FleetState) -> dict[str | None, list[str]]:
    """The tenants directly below each tenant, sorted."""
    found: dict[str | None, list[str]] = {}
    for name in sorted(state.tenants):
        found.setdefault(state.tenants[name].parent, []).append(name)
    return found


def _root_of(state: FleetState, name: str) -> str:
    above = state.tenants[name].parent
    while above is not None:
        name, above = above, state.tenants[above].parent
    return name

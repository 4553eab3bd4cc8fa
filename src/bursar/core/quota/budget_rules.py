"""What exhausted budgets forbid: borrowing, new starts, or running at all.

The levels come from the log (``BudgetLevelChanged``); what a level forbids is set in the tenant's budget.
Recomputed when either changes, so that a cycle only looks it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from bursar.core.quota.quota_tree import QuotaNode, QuotaTree
from bursar.model.calendar import period_around
from bursar.model.event import BudgetLevelChanged
from bursar.model.reason import OverBudget
from bursar.model.tenants.tenant import BudgetAction, FlavorResource, Quota, Tenant

_NOTHING = Quota()


class BudgetRules:
    """``levels`` has the latest level of each tenant; the rest is derived from it.

    ``holds`` has, by queue, why nothing starts there; ``stops``, by queue, which jobs must stop.
    """

    def __init__(
        self, tenants: Mapping[str, Tenant], borrowing_changed: Callable[[], None]
    ) -> None:
        self._tenants = tenants
        self._borrowing_changed = borrowing_changed
        self.levels: dict[str, BudgetLevelChanged] = {}
        self.no_borrowing: Mapping[str, BudgetLevelChanged] = {}
        self.holds: dict[str, tuple[OverBudget]] = {}
        self.stops: dict[str, BudgetAction] = {}

    def level_changed(self, event: BudgetLevelChanged) -> None:
        """Apply a new level of spending."""
        before = self.no_borrowing.keys()
        self.levels[event.tenant] = event
        self.refresh()
        if before != self.no_borrowing.keys():
            self._borrowing_changed()

    def refresh(self) -> None:
        """Recompute the rules after a level or a tenant changed."""
        if not self.levels:
            return
        tenants = self._tenants
        actions = {name: action_of(tenants.get(name), one) for name, one in self.levels.items()}
        self.no_borrowing = {
            name: self.levels[name]
            for name, action in sorted(actions.items())
            if action is not None and action.rank >= BudgetAction.BLOCK_BORROWING.rank
        }
        self.holds, self.stops = {}, {}
        for queue in sorted(name for name, one in tenants.items() if one.is_queue):
            self._refresh_queue(queue, actions)

    def _refresh_queue(self, queue: str, actions: Mapping[str, BudgetAction | None]) -> None:
        """The strictest budget at or above a queue applies; of equals the nearest."""
        strictest, owner, tenants = BudgetAction.NOTIFY, queue, self._tenants
        at: str | None = queue
        while at is not None:
            action = actions.get(at)
            if action is not None and action.rank > strictest.rank:
                strictest, owner = action, at
            at = tenants[at].parent
        if strictest.rank >= BudgetAction.BLOCK_NEW.rank:
            reason = over_budget(tenants[owner], self.levels[owner])
            self.holds[queue] = (replace(reason, queues=queues_below(tenants, owner)),)
        if strictest.rank >= BudgetAction.STOP_PREEMPTIBLE.rank:
            self.stops[queue] = strictest


def action_of(tenant: Tenant | None, level: BudgetLevelChanged) -> BudgetAction | None:
    """The action that a level requires of a tenant, if any."""
    if tenant is None or tenant.budget is None:
        return None
    step = tenant.budget.step_at(level.level)
    return None if step is None else step.action


def over_budget(tenant: Tenant, level: BudgetLevelChanged) -> OverBudget:
    """The reason why nothing starts, with amounts."""
    assert tenant.budget is not None
    return OverBudget(
        tenant=tenant.name,
        spent_micro_usd=level.spent_micro_usd,
        amount_micro_usd=level.amount_micro_usd,
        level=level.level,
        period_ends_ms=period_around(tenant.budget.period, level.period_start_ms)[1],
    )


def queues_below(tenants: Mapping[str, Tenant], owner: str) -> tuple[str, ...]:
    """The queues at or below a tenant, sorted."""

    def is_below(name: str | None) -> bool:
        while name is not None and name != owner:
            name = tenants[name].parent
        return name == owner

    return tuple(
        sorted(one.name for one in tenants.values() if one.is_queue and is_below(one.name))
    )


def quota_tree(
    tenants: Iterable[Tenant],
    no_borrowing: Mapping[str, BudgetLevelChanged],
    limited: Iterable[FlavorResource],
) -> QuotaTree:
    """A quota tree without usage, in which some tenants may not borrow."""
    return QuotaTree(
        QuotaNode(
            name=one.name,
            parent=one.parent,
            quotas={
                key: replace(one.quotas.get(key, _NOTHING), borrowing_limit=0) for key in limited
            }
            if one.name in no_borrowing and one.parent is not None
            else one.quotas,
            weight=one.weight,
            is_queue=one.is_queue,
        )
        for one in tenants
    )

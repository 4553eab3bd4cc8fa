"""What spent budgets forbid now: who may not borrow, who starts nothing, and who must stop.

The levels come from the log (``BudgetLevelChanged``); what follows from a level is what the tenant's
budget says now. Worked out when either changes, so that a cycle only looks it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from bursar.core.quota import QuotaNode, QuotaTree
from bursar.model.calendar import period_around
from bursar.model.event import BudgetLevelChanged
from bursar.model.reason import OverBudget
from bursar.model.tenant import BudgetAction, FlavorResource, Quota, Tenant

_NOTHING = Quota()


class BudgetRules:
    """``levels`` is the last word on each tenant with a budget; the rest follows from it.

    ``holds`` has, by queue, why nothing starts there; ``stops``, by queue, who must stop.
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
        """So much of a budget is spent from now on."""
        before = self.no_borrowing.keys()
        self.levels[event.tenant] = event
        self.work_out()
        if before != self.no_borrowing.keys():
            self._borrowing_changed()

    def work_out(self) -> None:
        """A level has changed, or a tenant."""
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
            self._work_out_queue(queue, actions)

    def _work_out_queue(self, queue: str, actions: Mapping[str, BudgetAction | None]) -> None:
        """The strictest of the budgets above a queue counts, and of equals the nearest."""
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
    """What a level means for a tenant now; None when nothing, or when it has no budget any more."""
    if tenant is None or tenant.budget is None:
        return None
    step = tenant.budget.step_at(level.level)
    return None if step is None else step.action


def over_budget(tenant: Tenant, level: BudgetLevelChanged) -> OverBudget:
    """Why nothing starts, in numbers."""
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
    """The quota tree of tenants, in which some may not borrow; nothing is used yet."""
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

"""Hard budgets at admission: a job's maximum cost is held, or the job is rejected.

Requests of a transaction are prepared one after the other, and each sees the holds of those before it, so
concurrent submissions cannot exceed a budget together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from bursar.accounting.budgets.budget import Committed
from bursar.accounting.budgets.budget_monitor import BudgetMonitor
from bursar.core.admission.eligible_pools import cost_of_ms, dearest_hourly_micro_usd
from bursar.core.state.fleet_state import FleetState
from bursar.model.calendar import period_around, write_time
from bursar.model.errors import UserError
from bursar.model.event import JobSubmitted
from bursar.model.jobs.job import JobSpec
from bursar.model.units import MINUTE_MS, SECOND_MS, write_duration, write_usd

STARTING_MS = 2 * MINUTE_MS
"""Allowance for a start in addition to the run time: nodes are paid for from assignment."""
STOPPING_MS = 10 * SECOND_MS
"""Allowance in addition to the grace period, for the stop to be sent and its end reported."""


class BudgetAdmission:
    """Budget checks of one transaction. A request's jobs are held together or not at all."""

    def __init__(self, budgets: BudgetMonitor, state: FleetState, now_ms: int) -> None:
        self._budgets = budgets
        self._state = state
        self._now_ms = now_ms
        self._committed: dict[str, Committed] = {}
        self._held_here: dict[str, int] = {}
        """Micro-dollars that this transaction holds, by tenant."""

    def with_holds(
        self, members: tuple[JobSubmitted, ...], grace_seconds: int
    ) -> tuple[JobSubmitted, ...]:
        """A job, or the members of an array, with cost ceiling and hold of each."""
        spec = members[0].spec
        has_hard_budget = spec.queue in self._budgets.tree.hard_above
        if not has_hard_budget and spec.max_cost_micro_usd is None:
            return members
        grace_ms = grace_seconds * SECOND_MS + STOPPING_MS
        ceiling, hold = spec.max_cost_micro_usd, 0
        if has_hard_budget:
            ceiling, hold = self._ceiling_and_hold(spec, grace_ms)
        return tuple(
            replace(
                event,
                spec=replace(event.spec, max_cost_micro_usd=ceiling, grace_ms=grace_ms),
                hold_micro_usd=hold,
            )
            for event in members
        )

    def _ceiling_and_hold(self, spec: JobSpec, grace_ms: int) -> tuple[int, int]:
        """A job's cost ceiling, and its hold: the ceiling plus one start and stop."""
        hourly = dearest_hourly_micro_usd(spec, self._state)
        ceilings = [] if spec.max_cost_micro_usd is None else [spec.max_cost_micro_usd]
        if spec.max_run_ms is not None:
            ceilings.append(cost_of_ms(hourly, STARTING_MS + spec.max_run_ms + grace_ms))
        if not ceilings:
            tenant = self._budgets.tree.hard_above[spec.queue][0]
            raise UserError(
                f"{tenant} has a hard budget, and the job has no cost limit.",
                fix="Write max_hours or max_cost: that amount of the budget is held until the job ends.",
                code="needs-a-limit",
            )
        ceiling, stop = min(ceilings), cost_of_ms(hourly, grace_ms)
        if ceiling <= stop:
            raise UserError(
                f"max_cost is {write_usd(ceiling)}, but stopping the job "
                f"({write_duration(grace_ms)}) costs up to {write_usd(stop)}.",
                fix="Write a higher max_cost, or a shorter grace.",
                code="needs-a-limit",
            )
        return ceiling, ceiling + cost_of_ms(hourly, STARTING_MS + grace_ms)

    def hold(
        self,
        events: Iterable[JobSubmitted],
        can_see: Callable[[str], bool] = lambda _tenant: True,
    ) -> None:
        """Hold the cost of all these jobs, or reject all of them.

        ``can_see`` returns whether the caller may see a tenant's spending.
        """
        wanted: dict[str, int] = {}
        for event in events:
            if event.hold_micro_usd:
                for tenant in self._budgets.tree.hard_above[event.spec.queue]:
                    wanted[tenant] = wanted.get(tenant, 0) + event.hold_micro_usd
        for tenant, micro_usd in sorted(wanted.items()):
            self._require_budget(tenant, micro_usd, can_see(tenant))
        for tenant, micro_usd in wanted.items():
            self._held_here[tenant] = self._held_here.get(tenant, 0) + micro_usd

    def _require_budget(self, tenant: str, wanted: int, is_visible: bool) -> None:
        committed = self._committed.get(tenant)
        if committed is None:
            committed = self._committed[tenant] = self._budgets.committed(tenant, self._now_ms)
        held = committed.held_micro_usd + self._held_here.get(tenant, 0)
        budget = self._budgets.tree.budgets[tenant]
        remaining = budget.amount_micro_usd - committed.spent_micro_usd - held
        if wanted <= remaining:
            return
        ends = write_time(period_around(budget.period, self._now_ms)[1])
        problem = (
            f"{tenant} may spend {write_usd(budget.amount_micro_usd)} a {budget.period}: "
            f"{write_usd(committed.spent_micro_usd)} is spent, {write_usd(held)} is held for open jobs, "
            f"and this may cost up to {write_usd(wanted)}, {write_usd(wanted - max(0, remaining))} more "
            "than is left."
        )
        if not is_visible:
            problem = (
                f"this may cost up to {write_usd(wanted)}, and the budget of {tenant}, above your own, "
                "has less left."
            )
        raise UserError(
            problem,
            fix=f"Lower max_hours or max_cost, wait until jobs end or until {ends}, or ask an "
            f"administrator for a larger budget of {tenant}.",
            code="over-budget",
        )

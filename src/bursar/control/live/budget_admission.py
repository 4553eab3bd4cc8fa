"""Hard budgets at the door: what a job may cost at most is held, or it is not let in.

The writer prepares one request after the other, so what a group has let in so far is counted with what
was committed before it: however many ask at once, together they get no more than is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from bursar.accounting.budgets.budget import Committed
from bursar.accounting.budgets.budget_monitor import BudgetMonitor
from bursar.core.admission.price_limit import cost_of_ms, dearest_hourly_micro_usd
from bursar.core.state.fleet_state import FleetState
from bursar.model.calendar import period_around, write_time
from bursar.model.errors import UserError
from bursar.model.event import JobSubmitted
from bursar.model.jobs.job import JobSpec
from bursar.model.units import MINUTE_MS, SECOND_MS, write_duration, write_usd

STARTING_MS = 2 * MINUTE_MS
"""A place is paid for from when it is promised; so long a start may take beside the time to run."""
STOPPING_MS = 10 * SECOND_MS
"""Beside its grace, so long it may take until an attempt is told to stop and until its end is known."""


def _all(_tenant: str) -> bool:
    """Who sees everything."""
    return True


class BudgetAdmission:
    """For one group of requests. A request is asked as a whole, and counted when all of it was let in."""

    def __init__(self, budgets: BudgetMonitor, state: FleetState, now_ms: int) -> None:
        self._budgets = budgets
        self._state = state
        self._now_ms = now_ms
        self._before: dict[str, Committed] = {}
        self._let_in: dict[str, int] = {}

    def with_holds(
        self, made: tuple[JobSubmitted, ...], grace_seconds: int
    ) -> tuple[JobSubmitted, ...]:
        """One job, or the members of one array, with their ceiling and what is held for each."""
        spec = made[0].spec
        is_free = spec.queue not in self._budgets.tree.hard_above
        if is_free and spec.max_cost_micro_usd is None:
            return made
        grace_ms = grace_seconds * SECOND_MS + STOPPING_MS
        ceiling, hold = spec.max_cost_micro_usd, 0
        if not is_free:
            ceiling, hold = self._allowance(spec, grace_ms)
        return tuple(
            JobSubmitted(
                at_ms=event.at_ms,
                job_id=event.job_id,
                spec=replace(event.spec, max_cost_micro_usd=ceiling, grace_ms=grace_ms),
                priority=event.priority,
                hold_micro_usd=hold,
            )
            for event in made
        )

    def _allowance(self, spec: JobSpec, grace_ms: int) -> tuple[int, int]:
        """A job's ceiling, and what is held for it: the ceiling, and one start and stop more."""
        hourly = dearest_hourly_micro_usd(spec, self._state)
        ceilings = [] if spec.max_cost_micro_usd is None else [spec.max_cost_micro_usd]
        if spec.max_run_ms is not None:
            ceilings.append(cost_of_ms(hourly, STARTING_MS + spec.max_run_ms + grace_ms))
        if not ceilings:
            tenant = self._budgets.tree.hard_above[spec.queue][0]
            raise UserError(
                f"{tenant} has a hard budget, and nothing says what the job may cost at most.",
                fix="Write max_hours or max_cost: so much of the budget is held until the job is over.",
                code="needs-a-limit",
            )
        ceiling, stop = min(ceilings), cost_of_ms(hourly, grace_ms)
        if ceiling <= stop:
            raise UserError(
                f"max_cost is {write_usd(ceiling)}, and the time that the job has to stop "
                f"({write_duration(grace_ms)}) costs up to {write_usd(stop)}.",
                fix="Write a higher max_cost, or a shorter grace.",
                code="needs-a-limit",
            )
        return ceiling, ceiling + cost_of_ms(hourly, STARTING_MS + grace_ms)

    def let_in(self, events: Iterable[JobSubmitted], sees: Callable[[str], bool] = _all) -> None:
        """Count what is held for all of these, or refuse all of them.

        ``sees`` says of which tenants the caller may know what they spend.
        """
        asked: dict[str, int] = {}
        for event in events:
            if event.hold_micro_usd:
                for tenant in self._budgets.tree.hard_above[event.spec.queue]:
                    asked[tenant] = asked.get(tenant, 0) + event.hold_micro_usd
        for tenant, micro_usd in sorted(asked.items()):
            self._require(tenant, micro_usd, sees(tenant))
        for tenant, micro_usd in asked.items():
            self._let_in[tenant] = self._let_in.get(tenant, 0) + micro_usd

    def _require(self, tenant: str, asked: int, is_seen: bool) -> None:
        before = self._before.get(tenant)
        if before is None:
            before = self._before[tenant] = self._budgets.committed(tenant, self._now_ms)
        held = before.held_micro_usd + self._let_in.get(tenant, 0)
        budget = self._budgets.tree.budgets[tenant]
        left = budget.amount_micro_usd - before.spent_micro_usd - held
        if asked <= left:
            return
        ends = write_time(period_around(budget.period, self._now_ms)[1])
        told = (
            f"{tenant} may spend {write_usd(budget.amount_micro_usd)} a {budget.period}: "
            f"{write_usd(before.spent_micro_usd)} is spent, {write_usd(held)} is held for open jobs, "
            f"and this may cost up to {write_usd(asked)}, {write_usd(asked - max(0, left))} more than "
            "is left."
        )
        if not is_seen:
            told = (
                f"this may cost up to {write_usd(asked)}, and the budget of {tenant}, above your own, "
                "has less left."
            )
        raise UserError(
            told,
            fix=f"Lower max_hours or max_cost, wait until jobs are over or until {ends}, or ask whoever "
            f"keeps the fleet file for a larger budget of {tenant}.",
            code="over-budget",
        )

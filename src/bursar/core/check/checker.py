"""All rules together, and what to do when one is broken."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.check.budgets import budget_faults
from bursar.core.check.coverage import answer_faults
from bursar.core.check.decisions_by_type import DecisionsByType
from bursar.core.check.fault import Fault
from bursar.core.check.orders import order_faults
from bursar.core.check.quotas import quota_faults
from bursar.core.check.replay_orders import placement_faults
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import Decision
from bursar.model.errors import BrokenInvariant
from bursar.model.units import counted

RECOUNTED_JOBS = 1_000
"""How many running jobs a check of quotas counts anew unless the caller wants another number."""
SHOWN_FAULTS = 20


def check(
    state: FleetState,
    decisions: Sequence[Decision],
    now_ms: int,
    *,
    recounted_jobs: int | None = RECOUNTED_JOBS,
) -> tuple[Fault, ...]:
    """Everything wrong with a set of decisions for a state, however they were made.

    The cost is that of the decisions and of the nodes and tenants they touch. ``recounted_jobs=None``
    counts every running job of those tenants anew.
    """
    listing = DecisionsByType(decisions)
    return (
        *placement_faults(state, decisions),
        *order_faults(state, listing, now_ms),
        *quota_faults(state, listing, recounted_jobs),
        *budget_faults(state, listing),
        *answer_faults(state, listing),
    )


def require_valid(state: FleetState, decisions: Sequence[Decision], now_ms: int) -> None:
    """Stop the cycle if anything is wrong with its decisions, and say what."""
    require_no_faults(check(state, decisions, now_ms), len(decisions))


def require_no_faults(faults: Sequence[Fault], decisions: int) -> None:
    """Raise ``BrokenInvariant`` with the first faults found in so many decisions."""
    if not faults:
        return
    lines = [f"- {fault}" for fault in faults[:SHOWN_FAULTS]]
    if len(faults) > SHOWN_FAULTS:
        lines.append(f"- and {len(faults) - SHOWN_FAULTS} more")
    number = counted(len(faults), "fault")
    raise BrokenInvariant(f"{number} in {decisions} decisions:\n" + "\n".join(lines))

"""Runs every check, and raises if one fails."""

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
"""Default for how many running jobs a quota check recounts."""
SHOWN_FAULTS = 20


def check(
    state: FleetState,
    decisions: Sequence[Decision],
    now_ms: int,
    *,
    recounted_jobs: int | None = RECOUNTED_JOBS,
) -> tuple[Fault, ...]:
    """Returns every fault in a set of decisions for a state.

    The cost depends on the decisions and on the nodes and tenants they touch.
    ``recounted_jobs=None`` recounts every running job of those tenants.
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
    """Raises ``BrokenInvariant`` if the decisions of a cycle have a fault."""
    require_no_faults(check(state, decisions, now_ms), len(decisions))


def require_no_faults(faults: Sequence[Fault], decision_count: int) -> None:
    """Raises ``BrokenInvariant`` with the first faults, if there are any."""
    if not faults:
        return
    lines = [f"- {fault}" for fault in faults[:SHOWN_FAULTS]]
    if len(faults) > SHOWN_FAULTS:
        lines.append(f"- and {len(faults) - SHOWN_FAULTS} more")
    summary = f"{counted(len(faults), 'fault')} in {counted(decision_count, 'decision')}"
    raise BrokenInvariant(f"{summary}:\n" + "\n".join(lines))

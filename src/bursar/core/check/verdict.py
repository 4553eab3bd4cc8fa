"""All rules together, and what to do when one is broken."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.check.answers import AnswerFault, answer_faults
from bursar.core.check.budgets import BudgetFault, budget_faults
from bursar.core.check.listing import Listing
from bursar.core.check.order_faults import OrderFault
from bursar.core.check.orders import order_faults
from bursar.core.check.quotas import OverQuota, quota_faults
from bursar.core.check.rooms import RoomFault, room_faults
from bursar.core.check.upkeep import StateDrift, state_faults
from bursar.core.state import FleetState
from bursar.model.decision import Decision
from bursar.model.errors import BrokenInvariant
from bursar.model.units import counted

Fault = RoomFault | OrderFault | OverQuota | BudgetFault | AnswerFault | StateDrift

RECOUNTED_JOBS = 1_000
"""How many running jobs a check of quotas counts anew unless it is told to be thorough."""
SHOWN_FAULTS = 20


def check(
    state: FleetState,
    decisions: Sequence[Decision],
    now_ms: int,
    *,
    thorough: bool = False,
    recounted_jobs: int = RECOUNTED_JOBS,
) -> tuple[Fault, ...]:
    """Everything wrong with a set of decisions for a state, however they were made.

    The cost is that of the decisions and of the nodes and tenants they touch. ``thorough`` counts
    everything anew, also whether the state itself is right.
    """
    listing = Listing(decisions)
    found: list[Fault] = [
        *room_faults(state, decisions),
        *order_faults(state, listing, now_ms),
        *quota_faults(state, listing, None if thorough else recounted_jobs),
        *budget_faults(state, listing),
        *answer_faults(state, listing),
    ]
    if thorough:
        found += state_faults(state)
    return tuple(found)


def require_sound(
    state: FleetState, decisions: Sequence[Decision], now_ms: int, *, thorough: bool = False
) -> None:
    """Stop the cycle if anything is wrong with its decisions, and say what."""
    faults = check(state, decisions, now_ms, thorough=thorough)
    if not faults:
        return
    lines = [f"- {fault}" for fault in faults[:SHOWN_FAULTS]]
    if len(faults) > SHOWN_FAULTS:
        lines.append(f"- and {len(faults) - SHOWN_FAULTS} more")
    number = counted(len(faults), "fault")
    raise BrokenInvariant(f"{number} in {len(decisions)} decisions:\n" + "\n".join(lines))

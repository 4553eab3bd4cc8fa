"""Which method of the state brings in which event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bursar.model import event as ev

if TYPE_CHECKING:
    from bursar.core.state import FleetState


def appliers_of(state: FleetState) -> dict[type, Callable[..., None]]:
    """By kind of event. One that is missing here cannot be applied."""
    return {
        ev.JobSubmitted: state.submitted,
        ev.JobCancelled: state.cancelled,
        ev.AttemptAssigned: state.assigned,
        ev.AttemptStarted: state.started,
        ev.CheckpointSaved: state.saved,
        ev.AttemptResumed: state.resumed,
        ev.AttemptStopping: state.told_to_stop,
        ev.AttemptExpired: state.told_to_stop,
        ev.AttemptPreempted: state.ended,
        ev.AttemptSucceeded: state.ended,
        ev.AttemptFailed: state.ended,
        ev.RoomClaimed: state.room_claimed,
        ev.RoomReleased: state.room_released,
        ev.GpuPartitioned: state.partitioned,
        ev.NodeAdded: state.node_added,
        ev.NodeDrained: state.node_drained,
        ev.NodeRestored: state.node_restored,
        ev.NodeLost: state.node_lost,
        ev.SpotNotice: state.noticed,
        ev.ForeignUsageSeen: state.foreign_seen,
        ev.TenantChanged: state.tenant_changed,
        ev.PriceChanged: state.price_changed,
        ev.BudgetLevelChanged: state.budgets.level_changed,
    }

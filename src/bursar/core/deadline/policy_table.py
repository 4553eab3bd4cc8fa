"""The key of a solved table, and how an action is looked up in it.

Separate from ``policy_solver.py``, which imports numpy: most fleets never need a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bursar.core.deadline.availability import AGES, AvailabilityEstimate
from bursar.model.units import HOUR_MS, MINUTE_MS

ACT_WAIT: Final = 0
ACT_SPOT: Final = 1
ACT_ON_DEMAND: Final = 2

STEP_CHOICES_MS: Final = tuple(minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 20, 30, 60, 120))
MOST_STEPS: Final = 480
STEPS_IN_A_BLOCK: Final = 120
UNITS_PER_STEP: Final = 2
PRICE_GRID: Final = 50

INTERVALS: Final = 2 * AGES
SPOT_ROWS: Final = INTERVALS
ON_DEMAND_ROWS: Final = INTERVALS + AGES
ROWS: Final = ON_DEMAND_ROWS + INTERVALS


@dataclass(frozen=True, slots=True)
class TableKey:
    """What a table depends on; ``price`` is a spot hour in fiftieths of an on-demand hour."""

    step_ms: int
    steps: int
    units: int
    change_over_ms: int
    price: int
    up_step: int
    down_step: int


@dataclass(frozen=True, slots=True)
class ValueTable:
    """The best action at each point, one byte each."""

    key: TableKey
    actions: bytes

    def action(self, row: int, left_ms: int, work_ms: int) -> int:
        """The best action; time is rounded down and work up, which is the safe side."""
        key = self.key
        steps = min(left_ms // key.step_ms, key.steps)
        units = min(-(-work_ms * UNITS_PER_STEP // key.step_ms), key.units)
        return self.actions[(steps * ROWS + row) * (key.units + 1) + units]


def row_of(availability: AvailabilityEstimate, *, on_spot: bool, on_demand: bool) -> int:
    """The row for where the job runs and the age of the availability interval."""
    if on_spot:
        return SPOT_ROWS + availability.age
    interval = availability.age if availability.up else AGES + availability.age
    return ON_DEMAND_ROWS + interval if on_demand else interval


def step_for(deadline_ms: int) -> int:
    """The shortest step with which a table stays small."""
    for step_ms in STEP_CHOICES_MS:
        if deadline_ms <= MOST_STEPS * step_ms:
            return step_ms
    return -(-deadline_ms // (MOST_STEPS * HOUR_MS)) * HOUR_MS

"""The result of a placement: tasks per leaf, or what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCount:
    """The tasks of a gang on one leaf."""

    leaf: str
    tasks: int


Assignment = tuple[DomainCount, ...]


class MissReason(Enum):
    """Which rule rejected the request; the miss has the numbers."""

    NOT_ENOUGH_CAPACITY = "not enough capacity"
    NO_CAPACITY_FOR_LEADER = "no capacity for the leader"
    NO_DOMAINS = "no domains"
    UNKNOWN_LEVEL = "unknown level"
    LAYERS_DISAGREE = "layers disagree"
    STALE_LEAF = "stale leaf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyMiss:
    """No placement, and how much of the request fits.

    ``level`` is the level at which the search ended (or the invalid level of the request). ``slices_fit`` is
    what fits in the best domain, or in all domains together where spreading is allowed. A slice is one task
    unless the request groups tasks.
    """

    reason: MissReason
    level: str
    slices_wanted: int
    slices_fit: int = 0
    slice_size: int = 1
    leaf: str | None = None

    @property
    def tasks_fit(self) -> int:
        return self.slices_fit * self.slice_size

    def __str__(self) -> str:
        match self.reason:
            case MissReason.NOT_ENOUGH_CAPACITY:
                unit = "tasks" if self.slice_size == 1 else f"slices of {self.slice_size} tasks"
                return f"{self.slices_fit} of {self.slices_wanted} {unit} fit at level {self.level}"
            case MissReason.NO_CAPACITY_FOR_LEADER:
                return f"no domain at level {self.level} has capacity for the leader"
            case MissReason.NO_DOMAINS:
                return f"level {self.level} has no nodes"
            case MissReason.UNKNOWN_LEVEL:
                return f"the topology has no level {self.level}"
            case MissReason.LAYERS_DISAGREE:
                return f"the slice sizes or levels do not nest at level {self.level}"
            case MissReason.STALE_LEAF:
                return f"the assignment names {self.leaf}, which no longer exists"

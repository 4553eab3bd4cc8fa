"""What a placement answers: how many tasks each leaf takes, or what is missing, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCount:
    """A leaf's part of a gang."""

    leaf: str
    tasks: int


Assignment = tuple[DomainCount, ...]


class MissReason(Enum):
    """Which rule refused the request; the numbers stand beside it in the miss."""

    NOT_ENOUGH_CAPACITY = "too little room"
    NO_CAPACITY_FOR_LEADER = "no room for the leader"
    NO_DOMAINS = "no domains"
    UNKNOWN_LEVEL = "unknown level"
    LAYERS_DISAGREE = "layers disagree"
    STALE_LEAF = "stale leaf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyMiss:
    """No placement, and how far the best one came.

    ``level`` is the level the search ended at (or the level the request got wrong), and
    ``slices_fit`` what the best domain, or all domains together where spreading was allowed, would
    hold. A slice is one task unless the request groups tasks.
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
                return f"no domain at level {self.level} has room for the leader"
            case MissReason.NO_DOMAINS:
                return f"no node is known at level {self.level}"
            case MissReason.UNKNOWN_LEVEL:
                return f"the topology has no level {self.level}"
            case MissReason.LAYERS_DISAGREE:
                return f"the slice sizes or levels do not nest at level {self.level}"
            case MissReason.STALE_LEAF:
                return f"the assignment names {self.leaf}, which is gone"

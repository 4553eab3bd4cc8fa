"""The state of the control plane in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What 'bursar doctor' and /v1/health show."""

    is_leader: bool
    epoch: int
    leader_address: str | None
    last_sequence: int
    live_attempts: int
    waiting: int
    cycles: int
    last_cycle_ms: float
    stale_reports: int
    halted: str = ""
    """Why scheduling has stopped; empty while it runs."""
    store_fault: str = ""
    engine_faults: Mapping[str, str] = field(default_factory=dict)

"""What a simulation is given: a fleet, who shares it, what happens, and what only the world knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bursar.model.event import Event
from bursar.model.fleet.fleet import Fleet
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import SECOND_MS
from bursar.simulate.faults import Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How long engines take: to start the processes of an attempt, and to stop them when told to."""

    start_ms: int = 20 * SECOND_MS
    stop_ms: int = 30 * SECOND_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run. ``events`` are in order of time.

    ``run_ms`` is how long each job really runs at full size, which the scheduler is not told; a job
    without an entry runs exactly as long as its user expects. ``faults`` is what goes wrong on the
    way; without it nothing does, except what ``events`` say.
    """

    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies = field(default_factory=Policies)
    events: Iterable[Event]
    run_ms: Mapping[str, int] = field(default_factory=dict)
    delays: Delays = field(default_factory=Delays)
    faults: Faults | None = None

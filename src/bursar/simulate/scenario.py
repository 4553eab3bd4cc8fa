"""The input of a simulation: a fleet, its tenants, external events, and the true run times."""

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
    """How long engines take to start and to stop the processes of an attempt."""

    start_ms: int = 20 * SECOND_MS
    stop_ms: int = 30 * SECOND_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The input of one run. ``events`` are in order of time.

    ``run_ms`` is the true run time of each job at full size, which the scheduler does not know; a job
    without an entry runs exactly as long as its user expects.
    """

    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies = field(default_factory=Policies)
    events: Iterable[Event]
    run_ms: Mapping[str, int] = field(default_factory=dict)
    delays: Delays = field(default_factory=Delays)
    faults: Faults | None = None

"""What the rules about one job look at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from bursar.core.admission.problem import Problem
from bursar.core.state.fleet_state import FleetState
from bursar.model.jobs.job import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """A job at the door: what it asks for, when, and of which fleet.

    ``known_models`` are the GPU models that exist, in the fleet or elsewhere: a name outside them is
    a slip of the pen, and a name inside them that no pool has is a job for another fleet.
    """

    spec: JobSpec
    job_id: str
    at_ms: int
    state: FleetState
    known_models: Collection[str]


Rule = Callable[[AdmissionRequest], Iterable[Problem]]

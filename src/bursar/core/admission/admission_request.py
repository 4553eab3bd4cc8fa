"""The input of the admission rules for one job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from bursar.core.admission.problem import Problem
from bursar.core.state.fleet_state import FleetState
from bursar.model.jobs.job import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """A submitted job with the time and the state it is checked against.

    ``known_models`` are all GPU models of the catalog and the fleet. A name outside them is a typo; a
    name inside them that no pool has belongs to another fleet.
    """

    spec: JobSpec
    job_id: str
    at_ms: int
    state: FleetState
    known_models: Collection[str]


Rule = Callable[[AdmissionRequest], Iterable[Problem]]

"""Finds a job by id, or suggests similar ids."""

from __future__ import annotations

import heapq

from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.errors import UserError
from bursar.model.suggestion import did_you_mean

COMPARED = 200
"""How many ids with the longest common prefix are compared in full."""


def find_record(state: FleetState, job_id: str) -> JobRecord | None:
    """The job of that id; None if it has ended. An unknown id is a ``UserError``."""
    record = state.jobs.get(job_id)
    if record is None and job_id not in state.finished:
        raise UserError(
            f"there is no job {job_id!r}.", fix=_did_you_mean(state, job_id), code="unknown-job"
        )
    return record


def _did_you_mean(state: FleetState, job_id: str) -> str:
    known = [*state.jobs, *state.finished]
    likely = heapq.nsmallest(
        COMPARED,
        known,
        key=lambda other: (-_prefix_length(other, job_id), abs(len(other) - len(job_id)), other),
    )
    return did_you_mean(job_id, likely, 3) or "List the jobs of your queue to find its id."


def _prefix_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))

"""Explains what would happen to a job if it were submitted now.

The job is added to the live state, explained like a submitted job, and removed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.admit import job_problems
from bursar.core.admission.problem import Problem
from bursar.core.explain.explain import explain
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.event import JobSubmitted
from bursar.model.explain.explanation import Explanation
from bursar.model.jobs.job import JobState

THIS_JOB = "this job"
"""The id of a job that is not submitted. Real ids contain no spaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The problems of a job or, if it has none, its explanation."""

    problems: tuple[Problem, ...]
    explanation: Explanation | None


def preview(request: AdmissionRequest) -> Preview:
    """Previews a job; of an array, its first member."""
    problems = job_problems(request)
    if problems:
        return Preview(problems=problems, explanation=None)
    state, spec = request.state, replace(request.spec, array_size=1)
    priority = state.policies.priority_classes[spec.priority_class]
    event = JobSubmitted(at_ms=request.at_ms, job_id=request.job_id, spec=spec, priority=priority)
    with with_submitted(state, event):
        return Preview(problems=(), explanation=explain(state, event.job_id, request.at_ms))


@contextmanager
def with_submitted(state: FleetState, event: JobSubmitted) -> Iterator[JobRecord]:
    """Adds a waiting job to the state until the block ends."""
    record = JobRecord(event.job_id, event.spec, event.priority, event.at_ms)
    state.jobs[record.id] = record
    state.backlogs.add_job(record)
    unmet = {one for one in event.spec.depends_on if state.finished.get(one) != JobState.SUCCEEDED}
    if unmet:
        record.state = JobState.BLOCKED
        record.unmet = frozenset(unmet)
        state.blocked[record.id] = record
        state.dependent_holds = None
    else:
        record.backlog.join(record)
    try:
        yield record
    finally:
        if unmet:
            del state.blocked[record.id]
            state.dependent_holds = None
        else:
            record.backlog.leave(record)
        state.backlogs.remove_job(record)
        del state.jobs[record.id]

"""What would become of a job if it were submitted now? Asked before anybody submits it.

The job is put into the live state for the length of the question and taken out again without a trace;
what is asked is the same ``explain`` that a submitted job gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.feasibility_rules import room_problems
from bursar.core.admission.job_rules import JOB_RULES
from bursar.core.admission.placement_rules import PLACE_RULES
from bursar.core.admission.problem import Problem
from bursar.core.admission.value_rules import value_problems
from bursar.core.explain.explain import explain
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.event import JobSubmitted
from bursar.model.explain.explanation import Explanation
from bursar.model.jobs.job import JobState

THIS_JOB = "this job"
"""What a job without an id is called. No job has an id with a space in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What keeps a job from being accepted; when nothing does, what would become of it."""

    problems: tuple[Problem, ...]
    explanation: Explanation | None


def preview(arrival: AdmissionRequest) -> Preview:
    """Ask for one job; of an array, for its first member."""
    problems = problems_of(arrival)
    if problems:
        return Preview(problems=problems, explanation=None)
    state, spec = arrival.state, replace(arrival.spec, array_size=1)
    priority = state.policies.priority_classes[spec.priority_class]
    event = JobSubmitted(at_ms=arrival.at_ms, job_id=arrival.job_id, spec=spec, priority=priority)
    with with_submitted(state, event):
        return Preview(problems=(), explanation=explain(state, event.job_id, arrival.at_ms))


def problems_of(arrival: AdmissionRequest) -> tuple[Problem, ...]:
    """Everything ``check_job`` would refuse, one wall at a time as it does."""
    rules = (*JOB_RULES, *PLACE_RULES)
    for wall in (
        value_problems(arrival.spec),
        (problem for rule in rules for problem in rule(arrival)),
        room_problems(arrival),
    ):
        found = tuple(wall)
        if found:
            return found
    return ()


@contextmanager
def with_submitted(state: FleetState, event: JobSubmitted) -> Iterator[JobRecord]:
    """The state with one more waiting job; as before when the block ends."""
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

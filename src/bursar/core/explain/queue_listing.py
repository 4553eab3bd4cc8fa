"""Lists waiting jobs in scheduling order, with the reasons why they wait.

The order is the cycle's own, assuming that each job starts in its turn: a start counts against its
tenant, so the queues of equal tenants alternate as in a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

from bursar.core.cycle import decide
from bursar.core.draft import Draft
from bursar.core.explain.explain import CycleAnswers
from bursar.core.explain.queue_position import EXACT_TURNS
from bursar.core.ordering.turn import Turns
from bursar.core.ordering.urgency import levels_of
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.reason import Reason

LISTED_PER_QUEUE = 500
"""After the exact turns, jobs are listed by level and rank, at most this many of each queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A waiting job, its position, and its reasons; without reasons it starts next."""

    record: JobRecord
    number: int
    is_exact: bool
    reasons: tuple[Reason, ...]


def list_queue(state: FleetState, now_ms: int) -> tuple[QueueEntry, ...]:
    """Jobs with a claim, then queued jobs, then jobs that wait for dependencies."""
    claimants = [state.claims[job_id] for job_id in sorted(state.claims)]
    first, is_complete = _list_exactly(state, now_ms)
    rest = [] if is_complete else _list_by_rank(state, now_ms, {record.id for record in first})
    blocked = [state.blocked[job_id] for job_id in sorted(state.blocked)[:LISTED_PER_QUEUE]]
    answers = CycleAnswers(decide(state, now_ms))
    exact = len(claimants) + len(first)
    ordered = [*claimants, *first, *rest, *blocked]
    return tuple(
        QueueEntry(
            record=record,
            number=index + 1,
            is_exact=index < exact,
            reasons=answers.reasons_for(record),
        )
        for index, record in enumerate(ordered)
    )


def _list_exactly(state: FleetState, now_ms: int) -> tuple[list[JobRecord], bool]:
    """The jobs of the first turns, and whether these are all."""
    jobs: list[JobRecord] = []
    draft = Draft(state, now_ms)
    try:
        turns = Turns(draft, levels_of(draft), {})
        for _, head in turns:
            if len(jobs) >= EXACT_TURNS:
                return jobs, False
            jobs.append(head)
            turns.assume_start()
        return jobs, True
    finally:
        draft.journal.roll_back()


def _list_by_rank(state: FleetState, now_ms: int, before: set[str]) -> list[JobRecord]:
    """The other jobs, without alternating between queues: cheaper and close enough."""
    jobs: list[JobRecord] = []
    listed: dict[str, int] = {}
    for backlogs in levels_of(Draft(state, now_ms)):
        waiting = [
            record for backlog in backlogs for record in backlog.jobs() if record.id not in before
        ]
        for record in sorted(waiting, key=lambda one: one.rank):
            queue = record.spec.queue
            listed[queue] = listed.get(queue, 0) + 1
            if listed[queue] <= LISTED_PER_QUEUE:
                jobs.append(record)
    return jobs

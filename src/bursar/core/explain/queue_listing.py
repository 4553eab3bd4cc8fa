"""The waiting jobs in the order of their turns, with the reasons why they wait.

The order is the cycle's own, with each job assumed to start in its turn: a turn counts against its
tenant, so the queues of equal tenants alternate here as they do in a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

from bursar.core.cycle import decide
from bursar.core.draft import Draft
from bursar.core.explain.explain import reasons_for
from bursar.core.explain.queue_position import EXACT_TURNS
from bursar.core.ordering.turn import Turns
from bursar.core.ordering.urgency import levels_of
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import Decision, Hold
from bursar.model.reason import Reason

LISTED_PER_QUEUE = 500
"""After the exact turns, jobs are listed by level and rank: at most so many of each queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A waiting job, its number in the order, and why it waits. Without reasons it is about to start."""

    record: JobRecord
    number: int
    is_exact: bool
    reasons: tuple[Reason, ...]


def list_queue(state: FleetState, now_ms: int) -> tuple[QueueEntry, ...]:
    """Jobs with a claim first, then those waiting for a start, then those waiting for other jobs."""
    claimants = [state.claims[job_id] for job_id in sorted(state.claims)]
    first, is_whole = _list_exactly(state, now_ms)
    rest = [] if is_whole else _list_by_rank(state, now_ms, {record.id for record in first})
    blocked = [state.blocked[job_id] for job_id in sorted(state.blocked)[:LISTED_PER_QUEUE]]
    why = _Reasons(decide(state, now_ms))
    exact = len(claimants) + len(first)
    ordered = [*claimants, *first, *rest, *blocked]
    return tuple(
        QueueEntry(record=record, number=index + 1, is_exact=index < exact, reasons=why.of(record))
        for index, record in enumerate(ordered)
    )


def _list_exactly(state: FleetState, now_ms: int) -> tuple[list[JobRecord], bool]:
    """The jobs of the first turns, and whether that is all of them."""
    found: list[JobRecord] = []
    draft = Draft(state, now_ms)
    try:
        turns = Turns(draft, levels_of(draft), {})
        for _, head in turns:
            if len(found) >= EXACT_TURNS:
                return found, False
            found.append(head)
            turns.assume_start()
        return found, True
    finally:
        draft.undo()


def _list_by_rank(state: FleetState, now_ms: int, before: set[str]) -> list[JobRecord]:
    """The other jobs, without alternating between queues: it is cheaper and near enough."""
    found: list[JobRecord] = []
    listed: dict[str, int] = {}
    for backlogs in levels_of(Draft(state, now_ms)):
        waiting = [
            record for backlog in backlogs for record in backlog.jobs() if record.id not in before
        ]
        for record in sorted(waiting, key=lambda one: one.rank):
            queue = record.spec.queue
            listed[queue] = listed.get(queue, 0) + 1
            if listed[queue] <= LISTED_PER_QUEUE:
                found.append(record)
    return found


class _Reasons:
    """A cycle's holds, looked up by job; each kind is looked for once."""

    def __init__(self, decisions: tuple[Decision, ...]) -> None:
        self._orders = tuple(one for one in decisions if not isinstance(one, Hold))
        self._ordered = {getattr(one, "job_id", "") for one in self._orders}
        self._of_job: dict[str, tuple[Reason, ...]] = {}
        self._holds = tuple(one for one in decisions if isinstance(one, Hold) and not one.jobs)
        self._by_backlog: dict[int, tuple[Reason, ...]] = {}
        for hold in decisions:
            if isinstance(hold, Hold):
                self._of_job |= dict.fromkeys(hold.jobs, hold.reasons)

    def of(self, record: JobRecord) -> tuple[Reason, ...]:
        if record.id in self._ordered:
            return ()
        if record.id in self._of_job:
            return self._of_job[record.id]
        backlog = id(record.backlog)
        if backlog not in self._by_backlog:
            self._by_backlog[backlog] = reasons_for(record, self._holds)
        return self._by_backlog[backlog]

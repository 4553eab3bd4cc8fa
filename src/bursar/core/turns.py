"""The waiting jobs in the order in which they come, as far as anybody wants to read it.

The order is the cycle's own, with everybody taken to start in turn: a turn counts against its tenant, so
the queues of equal tenants alternate here as they do when room is given out.
"""

from __future__ import annotations

from dataclasses import dataclass

from bursar.core.ahead import turn_weight, weigh
from bursar.core.cycle import decide
from bursar.core.draft import Draft
from bursar.core.explain import reasons_for
from bursar.core.levels import levels_of, order_for
from bursar.core.line import JobRecord
from bursar.core.state import FleetState
from bursar.model.decision import Decision, Hold
from bursar.model.reason import Reason

PLAYED = 2_000
"""Turns played one by one. Behind them jobs are listed by level and rank, without alternating."""

LISTED_PER_QUEUE = 500
"""Of what stands behind the played turns, so many jobs of each queue are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A waiting job, its number in the order, and why it waits. Without reasons it is about to start."""

    record: JobRecord
    number: int
    is_exact: bool
    reasons: tuple[Reason, ...]


def turns(state: FleetState, now_ms: int) -> tuple[Turn, ...]:
    """Those whose place is being cleared, then everybody in line, then those who wait for others."""
    cleared = [state.claims[job_id] for job_id in sorted(state.claims)]
    played, is_whole = _in_line(state, now_ms)
    behind = [] if is_whole else _behind(state, now_ms, {record.id for record in played})
    blocked = [state.blocked[job_id] for job_id in sorted(state.blocked)[:LISTED_PER_QUEUE]]
    why = _Reasons(decide(state, now_ms))
    exact = len(cleared) + len(played)
    ordered = [*cleared, *played, *behind, *blocked]
    return tuple(
        Turn(record=record, number=index + 1, is_exact=index < exact, reasons=why.of(record))
        for index, record in enumerate(ordered)
    )


def _in_line(state: FleetState, now_ms: int) -> tuple[list[JobRecord], bool]:
    """The first jobs in line, and whether that is all of them."""
    found: list[JobRecord] = []
    draft = Draft(state, now_ms)
    try:
        for lines in list(levels_of(draft)):
            weights = {id(line): turn_weight(draft, line) for line in lines}
            order = order_for(draft, lines)
            while (line := order.next()) is not None:
                head = line.head()
                if head is None or not draft.waiting(line):
                    order.drop()
                    continue
                if len(found) >= PLAYED:
                    return found, False
                found.append(head)
                draft.take(line, head)
                weigh(draft, line.kind.queue, weights[id(line)])
                order.started()
        return found, True
    finally:
        draft.undo()


def _behind(state: FleetState, now_ms: int, before: set[str]) -> list[JobRecord]:
    found: list[JobRecord] = []
    listed: dict[str, int] = {}
    for lines in levels_of(Draft(state, now_ms)):
        waiting = [record for line in lines for record in line.jobs() if record.id not in before]
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
        self._of_line: dict[int, tuple[Reason, ...]] = {}
        for hold in decisions:
            if isinstance(hold, Hold):
                self._of_job |= dict.fromkeys(hold.jobs, hold.reasons)

    def of(self, record: JobRecord) -> tuple[Reason, ...]:
        if record.id in self._ordered:
            return ()
        if record.id in self._of_job:
            return self._of_job[record.id]
        line = id(record.line)
        if line not in self._of_line:
            self._of_line[line] = reasons_for(record, self._holds)
        return self._of_line[line]

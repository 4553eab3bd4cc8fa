"""A job's position in its queue and among all, and the work ahead of it.

The order is the cycle's own, with each job before it assumed to start in its turn. More urgent levels are
counted by the backlog. Within the job's own level turns are played one by one, up to a cap; beyond it the
rest is estimated from how often the job's own queue had its turn so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bursar.core.draft import Draft
from bursar.core.ordering.turn import Turns
from bursar.core.ordering.urgency import levels_of
from bursar.core.placement.pool_fit import MILLION, ShapePlan
from bursar.core.reservation.expected_ends import EndOdds, expected_run_ms
from bursar.core.state.backlog import Backlog
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.explain.explanation import Position
from bursar.model.fleet.fleet import Pool
from bursar.model.units import MILLI

EXACT_TURNS = 2_000
"""Turns played before the rest is estimated."""


@dataclass(slots=True)
class JobsAhead:
    """The jobs with an earlier turn. Rivals are those that could run on a flavor the job could run on."""

    jobs: int = 0
    rivals: int = 0
    rival_gpu_ms: int = 0
    rival_size: int = 0
    """Millionths of a node that they take together."""
    rival_work: dict[EndOdds, int] = field(default_factory=lambda: dict.fromkeys(EndOdds, 0))
    """Their sizes, each times the milliseconds it runs."""
    is_exact: bool = True
    levels: list[list[Backlog]] = field(default_factory=list)
    """The backlogs of rivals, and the job's own, most urgent level first."""


def jobs_ahead(state: FleetState, target: JobRecord, now_ms: int) -> JobsAhead:
    """Count the jobs that have their turn before a waiting job, and their work."""
    ahead = JobsAhead()
    flavors = {fit.flavor for fit in target.backlog.plan.fits}
    draft = Draft(state, now_ms)
    try:
        for backlogs in levels_of(draft):
            if any(backlog is target.backlog for backlog in backlogs):
                _play_turns(draft, ahead, backlogs, target)
                return ahead
            rivals = [backlog for backlog in backlogs if competes(backlog, flavors)]
            for backlog in backlogs:
                head = backlog.head()
                assert head is not None
                _count(ahead, backlog, head, backlog.count, flavors)
            if rivals:
                ahead.levels.append(rivals)
    finally:
        draft.undo()
    return ahead


def position_of(state: FleetState, record: JobRecord, ahead: JobsAhead, now_ms: int) -> Position:
    """A waiting job's position in its queue and among all, by the order of turns."""
    queue = record.spec.queue
    before = length = 0
    passed = False
    for level in levels_of(Draft(state, now_ms)):
        own_level = any(backlog is record.backlog for backlog in level)
        for backlog in level:
            if backlog.kind.queue != queue:
                continue
            length += backlog.count
            if own_level:
                before += sum(other.rank < record.rank for other in backlog.jobs())
            elif not passed:
                before += backlog.count
        passed = passed or own_level
    return Position(
        in_queue=before + 1,
        queue_length=length,
        overall=ahead.jobs + 1,
        waiting=sum(backlog.count for backlog in state.backlogs.by_key.values()),
        is_exact=ahead.is_exact,
    )


def competes(backlog: Backlog, flavors: set[str]) -> bool:
    """Whether jobs of a backlog could run on one of these flavors."""
    return any(fit.flavor in flavors for fit in backlog.plan.fits)


def _count(
    ahead: JobsAhead, backlog: Backlog, record: JobRecord, jobs: int, flavors: set[str]
) -> None:
    """Count jobs of one backlog, all taken to run as long as the given one."""
    ahead.jobs += jobs
    if competes(backlog, flavors):
        ahead.rivals += jobs
        plan = backlog.plan
        size = size_millionths(plan)
        ahead.rival_size += jobs * size
        for odds in EndOdds:
            ahead.rival_work[odds] += jobs * size * expected_run_ms(record, odds)
        run_ms = expected_run_ms(record, EndOdds.EVEN)
        ahead.rival_gpu_ms += jobs * plan.gpu_milli * run_ms // MILLI


def _play_turns(draft: Draft, ahead: JobsAhead, backlogs: list[Backlog], target: JobRecord) -> None:
    """Play the turns of the job's own level until its own."""
    flavors = {fit.flavor for fit in target.backlog.plan.fits}
    heads = {id(backlog): head for backlog in backlogs if (head := backlog.head()) is not None}
    before = JobsAhead(is_exact=False)
    own_turns = 0
    turns = Turns(draft, [backlogs], {})
    for (backlog, head), _ in zip(turns, range(EXACT_TURNS), strict=False):
        if head is target:
            before.is_exact = True
            break
        own_turns += backlog.kind.queue == target.spec.queue
        turns.assume_start()
    for backlog in backlogs:
        _count(before, backlog, heads[id(backlog)], draft.answered.get(id(backlog), 0), flavors)
    rivals = [
        backlog
        for backlog in backlogs
        if backlog is target.backlog
        or (id(backlog) in draft.answered and competes(backlog, flavors))
    ]
    draft.undo()
    if not before.is_exact:
        _estimate_rest(before, backlogs, target, own_turns)
    ahead.jobs += before.jobs
    ahead.rivals += before.rivals
    ahead.rival_gpu_ms += before.rival_gpu_ms
    ahead.rival_size += before.rival_size
    ahead.is_exact = before.is_exact
    for odds in EndOdds:
        ahead.rival_work[odds] += before.rival_work[odds]
    ahead.levels.append(rivals)


def size_millionths(plan: ShapePlan) -> int:
    """What a job of a shape takes on the pool it would run on first, in millionths of a node."""
    fit = plan.fits[0]
    return sum(
        group.count * node_millionths(fit.pool.spec, milli, group.cpu_milli, group.memory_mib)
        for group, milli in zip(plan.groups, fit.gpu_milli_per_task, strict=True)
    )


def node_millionths(spec: Pool, gpu_milli: int, cpu_milli: int, memory_mib: int) -> int:
    """The largest part of a node that is taken, in millionths: what fills a fleet up."""
    parts = [
        MILLION * cpu_milli // max(1, spec.cpu_milli),
        MILLION * memory_mib // max(1, spec.memory_mib),
    ]
    if spec.gpus_per_node:
        parts.append(MILLI * gpu_milli // spec.gpus_per_node)
    return max(parts)


def _estimate_rest(
    before: JobsAhead, backlogs: list[Backlog], target: JobRecord, own_turns: int
) -> None:
    """Stretch the turns played to the job's own place in its queue."""
    own = sum(
        record.rank < target.rank
        for backlog in backlogs
        if backlog.kind.queue == target.spec.queue
        for record in backlog.jobs()
    )
    waiting = sum(backlog.count for backlog in backlogs)
    whole = before.jobs * (own + 1) // max(1, own_turns)
    whole = max(before.jobs, min(waiting - 1, whole))
    if before.jobs:
        before.rivals = before.rivals * whole // before.jobs
        before.rival_gpu_ms = before.rival_gpu_ms * whole // before.jobs
        before.rival_size = before.rival_size * whole // before.jobs
        for odds in EndOdds:
            before.rival_work[odds] = before.rival_work[odds] * whole // before.jobs
        before.jobs = whole

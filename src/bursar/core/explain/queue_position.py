"""A job's position in its queue and overall, and the work ahead of it.

The order is the cycle's own, assuming that each job ahead starts in its turn. More urgent levels are
counted by backlog. Within the job's own level, turns are simulated up to a limit; the rest is estimated
from how often the job's queue had a turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bursar.core.draft import Draft
from bursar.core.ordering.turn import Turns
from bursar.core.ordering.urgency import levels_of
from bursar.core.placement.pool_fit import MILLION, ShapePlan
from bursar.core.reservation.expected_ends import EndOdds, expected_run_ms
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import Backlog, JobRecord
from bursar.model.explain.explanation import Position
from bursar.model.fleet.fleet import Pool
from bursar.model.units import MILLI

EXACT_TURNS = 2_000
"""How many turns are simulated before the rest is estimated."""


@dataclass(slots=True)
class JobsAhead:
    """The jobs ahead. Rivals are those that could use one of ``flavors``, those of the job."""

    flavors: frozenset[str]
    jobs: int = 0
    rivals: int = 0
    rival_gpu_ms: int = 0
    rival_size: int = 0
    """Their total size in millionths of a node."""
    rival_work: dict[EndOdds, int] = field(default_factory=lambda: dict.fromkeys(EndOdds, 0))
    """Their total size times run time in milliseconds."""
    is_exact: bool = True
    levels: list[list[Backlog]] = field(default_factory=list)
    """The backlogs of rivals, and the job's own, most urgent level first."""

    def has_rivals_in(self, backlog: Backlog) -> bool:
        """Whether jobs of a backlog could run on one of the flavors."""
        return any(fit.flavor in self.flavors for fit in backlog.plan.fits)

    def count(self, backlog: Backlog, record: JobRecord, jobs: int) -> None:
        """Adds jobs of one backlog, assuming the run time of the given job."""
        self.jobs += jobs
        if self.has_rivals_in(backlog):
            self.rivals += jobs
            plan = backlog.plan
            size = size_millionths(plan)
            self.rival_size += jobs * size
            for odds in EndOdds:
                self.rival_work[odds] += jobs * size * expected_run_ms(record, odds)
            run_ms = expected_run_ms(record, EndOdds.EVEN)
            self.rival_gpu_ms += jobs * plan.gpu_milli * run_ms // MILLI

    def add(self, more: JobsAhead, times: int = 1, over: int = 1) -> None:
        """Adds the counts of others, ``times / over`` times."""
        self.jobs += more.jobs * times // over
        self.rivals += more.rivals * times // over
        self.rival_gpu_ms += more.rival_gpu_ms * times // over
        self.rival_size += more.rival_size * times // over
        for odds, work in more.rival_work.items():
            self.rival_work[odds] += work * times // over


def jobs_ahead(state: FleetState, target: JobRecord, now_ms: int) -> JobsAhead:
    """Counts the jobs ahead of a waiting job, and their work."""
    ahead = JobsAhead(frozenset(fit.flavor for fit in target.backlog.plan.fits))
    draft = Draft(state, now_ms)
    try:
        for backlogs in levels_of(draft):
            if any(backlog is target.backlog for backlog in backlogs):
                _simulate_turns(draft, ahead, backlogs, target)
                return ahead
            rivals = [backlog for backlog in backlogs if ahead.has_rivals_in(backlog)]
            for backlog in backlogs:
                head = backlog.head()
                assert head is not None
                ahead.count(backlog, head, backlog.count)
            if rivals:
                ahead.levels.append(rivals)
    finally:
        draft.journal.roll_back()
    return ahead


def position_of(state: FleetState, record: JobRecord, ahead: JobsAhead, now_ms: int) -> Position:
    """A waiting job's position in its queue and overall, in scheduling order."""
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


def _simulate_turns(
    draft: Draft, ahead: JobsAhead, backlogs: list[Backlog], target: JobRecord
) -> None:
    """Simulates the turns of the job's own level until its own."""
    heads = {id(backlog): head for backlog in backlogs if (head := backlog.head()) is not None}
    before = JobsAhead(ahead.flavors, is_exact=False)
    own_turns = 0
    turns = Turns(draft, [backlogs], {})
    for (backlog, head), _ in zip(turns, range(EXACT_TURNS), strict=False):
        if head is target:
            before.is_exact = True
            break
        own_turns += backlog.kind.queue == target.spec.queue
        turns.assume_start()
    for backlog in backlogs:
        before.count(backlog, heads[id(backlog)], draft.answered.get(id(backlog), 0))
    rivals = [
        backlog
        for backlog in backlogs
        if backlog is target.backlog
        or (id(backlog) in draft.answered and ahead.has_rivals_in(backlog))
    ]
    draft.journal.roll_back()
    total = before.jobs if before.is_exact else _estimate(before, backlogs, target, own_turns)
    ahead.add(before, times=total, over=max(1, before.jobs))
    ahead.is_exact = before.is_exact
    ahead.levels.append(rivals)


def size_millionths(plan: ShapePlan) -> int:
    """The size of a job on its preferred pool, in millionths of a node."""
    fit = plan.fits[0]
    return sum(
        group.count * node_millionths(fit.pool.spec, milli, group.cpu_milli, group.memory_mib)
        for group, milli in zip(plan.groups, fit.gpu_milli_per_task, strict=True)
    )


def node_millionths(spec: Pool, gpu_milli: int, cpu_milli: int, memory_mib: int) -> int:
    """The largest fraction of a node's GPUs, CPUs or memory, in millionths."""
    fractions = [
        MILLION * cpu_milli // max(1, spec.cpu_milli),
        MILLION * memory_mib // max(1, spec.memory_mib),
    ]
    if spec.gpus_per_node:
        fractions.append(MILLI * gpu_milli // spec.gpus_per_node)
    return max(fractions)


def _estimate(before: JobsAhead, backlogs: list[Backlog], target: JobRecord, own_turns: int) -> int:
    """The jobs ahead if the simulated turns go on up to the job's position in its queue."""
    own = sum(
        record.rank < target.rank
        for backlog in backlogs
        if backlog.kind.queue == target.spec.queue
        for record in backlog.jobs()
    )
    waiting = sum(backlog.count for backlog in backlogs)
    total = before.jobs * (own + 1) // max(1, own_turns)
    return max(before.jobs, min(waiting - 1, total))

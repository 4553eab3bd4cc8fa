"""Who stands before a job: the order of a cycle, followed until the job's own turn.

The order is the real one, with everybody before the job taken to start in turn. More urgent levels are
counted by the line. Within the job's own level turns are played one by one, up to a cap; beyond it the
rest is estimated from how often the job's own queue had its turn so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bursar.core.draft import Draft
from bursar.core.expected_ends import Odds, expected_run_ms
from bursar.core.levels import levels_of, order_for
from bursar.core.line import JobRecord, KindLine
from bursar.core.shape import MILLION, ShapePlan
from bursar.core.state import FleetState
from bursar.model.fleet import Pool
from bursar.model.policy import UsageUnit
from bursar.model.units import MILLI

TURNS = 2_000
"""Turns played before the rest is estimated."""


@dataclass(slots=True)
class Ahead:
    """What stands before a job. Rivals are those that could run on a flavor it could run on."""

    jobs: int = 0
    rivals: int = 0
    rival_gpu_ms: int = 0
    rival_size: int = 0
    """Millionths of a node that they take together."""
    rival_work: dict[Odds, int] = field(default_factory=lambda: dict.fromkeys(Odds, 0))
    """Their sizes, each times the milliseconds it runs."""
    is_exact: bool = True
    levels: list[list[KindLine]] = field(default_factory=list)
    """The lines of rivals, and the job's own, most urgent level first."""


def stands_before(state: FleetState, target: JobRecord, now_ms: int) -> Ahead:
    """Count and weigh what has its turn before a waiting job."""
    ahead = Ahead()
    flavors = {fit.flavor for fit in target.line.plan.fits}
    draft = Draft(state, now_ms)
    try:
        for lines in levels_of(draft):
            if any(line is target.line for line in lines):
                _play_turns(draft, ahead, lines, target)
                return ahead
            rivals = [line for line in lines if competes(line, flavors)]
            for line in lines:
                head = line.head()
                assert head is not None
                _count(ahead, line, head, line.count, flavors)
            if rivals:
                ahead.levels.append(rivals)
    finally:
        draft.undo()
    return ahead


def competes(line: KindLine, flavors: set[str]) -> bool:
    """Whether jobs of a line could run on one of these flavors."""
    return any(fit.flavor in flavors for fit in line.plan.fits)


def _count(ahead: Ahead, line: KindLine, record: JobRecord, jobs: int, flavors: set[str]) -> None:
    """Count jobs of one line, all taken to run as long as the given one."""
    ahead.jobs += jobs
    if competes(line, flavors):
        ahead.rivals += jobs
        plan = line.plan
        size = size_of(plan)
        ahead.rival_size += jobs * size
        for odds in Odds:
            ahead.rival_work[odds] += jobs * size * expected_run_ms(record, odds)
        run_ms = expected_run_ms(record, Odds.EVEN)
        ahead.rival_gpu_ms += jobs * plan.gpu_milli * run_ms // MILLI


def _play_turns(draft: Draft, ahead: Ahead, lines: list[KindLine], target: JobRecord) -> None:
    """Give everybody before the job its turn."""
    flavors = {fit.flavor for fit in target.line.plan.fits}
    heads = {id(line): head for line in lines if (head := line.head()) is not None}
    weights = {id(line): turn_weight(draft, line) for line in lines}
    before = Ahead()
    turns = own_turns = 0
    order = order_for(draft, lines)
    while (line := order.next()) is not None and turns < TURNS:
        head = line.head()
        if head is None or head is target:
            break
        turns += 1
        own_turns += line.kind.queue == target.spec.queue
        draft.take(line, head)
        weigh(draft, line.kind.queue, weights[id(line)])
        order.started()
    else:
        before.is_exact = False
    for line in lines:
        _count(before, line, heads[id(line)], draft.taken.get(id(line), 0), flavors)
    rivals = [
        line
        for line in lines
        if line is target.line or (id(line) in draft.taken and competes(line, flavors))
    ]
    draft.undo()
    if not before.is_exact:
        _estimate_rest(before, lines, target, own_turns)
    ahead.jobs += before.jobs
    ahead.rivals += before.rivals
    ahead.rival_gpu_ms += before.rival_gpu_ms
    ahead.rival_size += before.rival_size
    ahead.is_exact = before.is_exact
    for odds in Odds:
        ahead.rival_work[odds] += before.rival_work[odds]
    ahead.levels.append(rivals)


def size_of(plan: ShapePlan) -> int:
    """What a job of a shape takes on the pool it would run on first, in millionths of a node."""
    fit = plan.fits[0]
    return sum(
        group.count * node_part(fit.pool.spec, milli, group.cpu_milli, group.memory_mib)
        for group, milli in zip(plan.groups, fit.gpu_milli_per_task, strict=True)
    )


def node_part(spec: Pool, gpu_milli: int, cpu_milli: int, memory_mib: int) -> int:
    """The largest part of a node that is taken, in millionths: what fills a fleet up."""
    parts = [
        MILLION * cpu_milli // max(1, spec.cpu_milli),
        MILLION * memory_mib // max(1, spec.memory_mib),
    ]
    if spec.gpus_per_node:
        parts.append(MILLI * gpu_milli // spec.gpus_per_node)
    return max(parts)


def _estimate_rest(before: Ahead, lines: list[KindLine], target: JobRecord, own_turns: int) -> None:
    """Stretch the turns played to the job's own place in its queue."""
    own = sum(
        record.rank < target.rank
        for line in lines
        if line.kind.queue == target.spec.queue
        for record in line.jobs()
    )
    waiting = sum(line.count for line in lines)
    whole = before.jobs * (own + 1) // max(1, own_turns)
    whole = max(before.jobs, min(waiting - 1, whole))
    if before.jobs:
        before.rivals = before.rivals * whole // before.jobs
        before.rival_gpu_ms = before.rival_gpu_ms * whole // before.jobs
        before.rival_size = before.rival_size * whole // before.jobs
        for odds in Odds:
            before.rival_work[odds] = before.rival_work[odds] * whole // before.jobs
        before.jobs = whole


def weigh(draft: Draft, queue: str, weight: int) -> None:
    """Let a turn count against its tenants as the start would."""
    tenant: str | None = queue
    while tenant is not None:
        draft.added_weight[tenant] = draft.added_weight.get(tenant, 0) + weight
        tenant = draft.state.parents[tenant]


def turn_weight(draft: Draft, line: KindLine) -> int:
    """What a job of a line would count in fair share on the pool it would run on first."""
    plan = line.plan
    if not plan.fits:
        return 0
    fit = plan.fits[0]
    spec = fit.pool.spec
    if draft.state.policies.order.usage_unit is UsageUnit.DOLLARS:
        return fit.hourly_micro_usd
    speed = spec.gpu_model.relative_speed_milli if spec.gpu_model is not None else 0
    return plan.gpu_milli * speed // MILLI

"""Forecasts the start of a waiting job from expected ends and the jobs ahead of it.

Computed on request, never by a cycle, and bounded: for a job near the front, scheduling cycles are
simulated (``lookahead.py``); further back, the work ahead is divided by the capacity that works on it. The
median uses expected run times, the 90th percentile uses limits (``expected_ends.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bursar.core.cycle import decide
from bursar.core.explain.lookahead import MOST_STARTS, Lookahead, LookaheadTooLong
from bursar.core.explain.queue_position import (
    JobsAhead,
    jobs_ahead,
    node_millionths,
    size_millionths,
)
from bursar.core.nodes.pool import PoolState
from bursar.core.preemption.preempt import fits_quota_when_idle
from bursar.core.quota.charge import gpu_milli_held
from bursar.core.reservation.expected_ends import (
    STOP_MS,
    EndOdds,
    expected_end_ms,
    remaining_run_ms,
)
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import ClaimPlacement, StartJob
from bursar.model.explain.explanation import Basis, Forecast
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import LIVE
from bursar.model.reason import OverBudget

LONGEST_CHAIN = 2
MOST_DEPENDENCIES = 4
"""Limits of forecasts of waiting dependencies; beyond them only the run time counts."""


def forecast(
    state: FleetState, record: JobRecord, now_ms: int, depth: int = 0, *, held: bool = False
) -> Forecast:
    """When a waiting job should start; pass ``held`` if it is known not to start now."""
    if record.claim is not None:
        return _victims_leave(now_ms)
    over_budget = state.budgets.holds.get(record.spec.queue)
    if over_budget is not None:
        return _next_period(over_budget[0])
    problem = why_never(state, record)
    if problem:
        return _never(problem)
    if record.state is JobState.BLOCKED:
        return _after_dependencies(state, record, now_ms, depth)
    if not held:
        for order in decide(state, now_ms):
            if isinstance(order, StartJob) and order.job_id == record.id:
                return Forecast(p50_start_ms=now_ms, p90_start_ms=now_ms, basis=Basis.STARTS_NOW)
            if isinstance(order, ClaimPlacement) and order.job_id == record.id:
                return _victims_leave(now_ms)
    return _wait(state, record, now_ms, dict.fromkeys(EndOdds, now_ms))


def why_never(state: FleetState, record: JobRecord) -> str:
    """Why the job could not start on an idle fleet; empty if it could."""
    plan, queue = record.backlog.plan, record.spec.queue
    if not plan.fits:
        return plan.problem
    short: list[str] = []
    for fit in plan.fits:
        request = fit.request(fit.min_counts)
        if fits_quota_when_idle(state.quota, queue, request):
            return ""
        short.append(fit.flavor)
    return f"the quota of {queue} for {', '.join(sorted(set(short)))} is too small for it"


def _wait(
    state: FleetState, record: JobRecord, now_ms: int, ready_ms: dict[EndOdds, int]
) -> Forecast:
    ahead = jobs_ahead(state, record, now_ms)
    starts: dict[EndOdds, int | None] = {}
    basis, note = Basis.REPLAY, ""
    try:
        if not ahead.is_exact or ahead.rivals > MOST_STARTS:
            raise LookaheadTooLong
        for odds in EndOdds:
            replay = Lookahead(state, record, odds, now_ms)
            starts[odds] = replay.start_ms(ahead, ready_ms[odds])
    except LookaheadTooLong:
        basis = Basis.WORK_AHEAD
        note = "estimated from the work ahead of it and the GPUs in use"
        for odds, at_ms in by_work_ahead(state, record, ahead, now_ms).items():
            starts[odds] = max(ready_ms[odds], at_ms)
    p50_ms, p90_ms = starts[EndOdds.EVEN], starts[EndOdds.NINE_IN_TEN]
    if p50_ms is None:
        p50_ms = p90_ms
    if p50_ms is None:
        basis, note = Basis.NEVER, "no expected end frees enough capacity for it"
    else:
        p90_ms = p50_ms if p90_ms is None else max(p50_ms, p90_ms)
    return Forecast(
        p50_start_ms=p50_ms,
        p90_start_ms=p90_ms,
        basis=basis,
        ahead_jobs=ahead.rivals,
        ahead_gpu_ms=ahead.rival_gpu_ms,
        note=note,
    )


def by_work_ahead(
    state: FleetState, record: JobRecord, ahead: JobsAhead, now_ms: int
) -> dict[EndOdds, int]:
    """When enough capacity has been freed for the job and all jobs ahead of it.

    Jobs ahead start as others end. While they need less than half of the capacity in use, the expected
    ends give the time. Further back, today's running jobs have been replaced, and the time is the work
    ahead divided by the capacity in use now: what quotas, shapes and drained nodes really allow.
    """
    pools = [pool for pool in state.pools.values() if pool.spec.flavor in ahead.flavors]
    running = [
        (runner, held_node_millionths(runner, pool))
        for pool in pools
        for runner in (state.jobs[job_id] for _, job_id in pool.ends)
    ]
    busy = sum(size for _, size in running)
    wanted = ahead.rival_size + size_millionths(record.backlog.plan)
    starts: dict[EndOdds, int] = {}
    for odds in EndOdds:
        freed, at_ms = 0, now_ms
        for end_ms, size in sorted((expected_end_ms(r, odds, now_ms), n) for r, n in running):
            if freed >= min(wanted, busy // 2):
                break
            freed, at_ms = freed + size, end_ms
        if wanted >= busy // 2:
            at_ms = max(at_ms, now_ms + ahead.rival_work[odds] // max(1, busy))
        starts[odds] = at_ms
    return starts


def held_node_millionths(runner: JobRecord, pool: PoolState) -> int:
    """The capacity of a pool that a running job holds, in millionths of a node."""
    part = None if runner.placement is None else runner.placement.part_in(pool.spec.name)
    assert part is not None
    return sum(
        node_millionths(
            pool.spec,
            gpu_milli_held(task, pool.spec.gpu_model),
            task.cpu_milli,
            task.memory_mib,
        )
        for task in part.tasks
    )


def _after_dependencies(state: FleetState, record: JobRecord, now_ms: int, depth: int) -> Forecast:
    """The job is ready when its last dependency has ended; then it waits in its queue."""
    ready_ms = dict.fromkeys(EndOdds, now_ms)
    for number, dependency in enumerate(sorted(record.unmet)):
        other = state.jobs.get(dependency)
        if other is None:
            outcome = state.finished.get(dependency, "unknown")
            return _never(f"it depends on {dependency} ({outcome})")
        deep = LONGEST_CHAIN if number >= MOST_DEPENDENCIES else depth
        done_ms = _done_ms(state, other, now_ms, deep)
        if done_ms is None:
            return _never(f"it depends on {dependency}, which is not expected to start")
        for odds in EndOdds:
            ready_ms[odds] = max(ready_ms[odds], done_ms[odds])
    with _as_if_ready(record):
        start = _wait(state, record, now_ms, ready_ms)
    note = f"after {', '.join(sorted(record.unmet)[:3])}"
    return replace(start, note=f"{note}; {start.note}" if start.note else note)


def _done_ms(
    state: FleetState, record: JobRecord, now_ms: int, depth: int
) -> dict[EndOdds, int] | None:
    """When a dependency is expected to succeed."""
    if record.state in LIVE:
        return {odds: expected_end_ms(record, odds, now_ms) for odds in EndOdds}
    runs_ms = {odds: remaining_run_ms(record, odds) for odds in EndOdds}
    if depth >= LONGEST_CHAIN:
        return {odds: now_ms + runs_ms[odds] for odds in EndOdds}
    start = forecast(state, record, now_ms, depth + 1)
    if start.p50_start_ms is None or start.p90_start_ms is None:
        return None
    return {
        EndOdds.EVEN: start.p50_start_ms + runs_ms[EndOdds.EVEN],
        EndOdds.NINE_IN_TEN: start.p90_start_ms + runs_ms[EndOdds.NINE_IN_TEN],
    }


@contextmanager
def _as_if_ready(record: JobRecord) -> Iterator[None]:
    """Queues a job that waits for dependencies until the block ends."""
    record.backlog.join(record)
    try:
        yield
    finally:
        record.backlog.leave(record)


def _never(note: str) -> Forecast:
    return Forecast(p50_start_ms=None, p90_start_ms=None, basis=Basis.NEVER, note=note)


def _next_period(over: OverBudget) -> Forecast:
    """The earliest start: which jobs are ahead of it by then is unknown."""
    return Forecast(
        p50_start_ms=over.period_ends_ms,
        p90_start_ms=over.period_ends_ms,
        basis=Basis.NEXT_PERIOD,
        note=f"at the earliest: the next budget period of {over.tenant} begins then",
    )


def _victims_leave(now_ms: int) -> Forecast:
    return Forecast(
        p50_start_ms=now_ms + STOP_MS[EndOdds.EVEN],
        p90_start_ms=now_ms + STOP_MS[EndOdds.NINE_IN_TEN],
        basis=Basis.VICTIMS_LEAVE,
        note="when the preempted jobs have stopped",
    )

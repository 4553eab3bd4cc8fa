"""When will it start? For a held job, from running jobs' expected ends and what stands before it.

Asked on demand, never by a cycle, and bounded: a job near the front is found by playing the cycle
forward (``lookahead.py``); behind more than that can play through, the work ahead is divided by what works
on it. Even odds use expected run times, nine in ten the limits (``expected_ends.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bursar.core.cycle import decide
from bursar.core.explain.job_lookup import find_record
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
"""Waiting dependencies are forecast so deep and so many; of the others only the run time counts."""


def forecast(state: FleetState, job_id: str, now_ms: int) -> Forecast:
    """When a job should start, with even odds and with nine in ten."""
    record = find_record(state, job_id)
    return forecast_record(state, record, now_ms) if record is not None else _not_waiting()


def forecast_record(
    state: FleetState, record: JobRecord, now_ms: int, depth: int = 0, *, held: bool = False
) -> Forecast:
    """The same for a job at hand; ``held`` when it is known that it does not start now."""
    if record.state in LIVE:
        return _not_waiting()
    if record.claim is not None:
        return _victims_leave(now_ms)
    over = state.budgets.holds.get(record.spec.queue)
    if over is not None:
        return _next_period(over[0])
    problem = never(state, record)
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


def never(state: FleetState, record: JobRecord) -> str:
    """Why no end of any running job can help; empty when one could."""
    plan, queue = record.backlog.plan, record.spec.queue
    if not plan.fits:
        return plan.problem
    short: list[str] = []
    for fit in plan.fits:
        request = fit.request(fit.min_counts)
        if fits_quota_when_idle(state.quota, queue, request):
            return ""
        short.append(fit.flavor)
    return f"{queue} could not hold that much of {', '.join(sorted(set(short)))} with nobody else"


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
        note = "estimated from the work before it and the GPUs that do it"
        for odds, at_ms in by_work_ahead(state, record, ahead, now_ms).items():
            starts[odds] = max(ready_ms[odds], at_ms)
    p50_ms, p90_ms = starts[EndOdds.EVEN], starts[EndOdds.NINE_IN_TEN]
    if p50_ms is None:
        p50_ms = p90_ms
    if p50_ms is None:
        basis, note = Basis.NEVER, "nothing that is expected to end makes room for it"
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
    """When enough has ended, or been worked off, for a job and all before it to have started.

    What stands before it starts as others end. While that is less than half of what runs, the ends
    themselves say when. Further back what runs now has long been replaced, and what counts is the
    work ahead against the part of the fleet that is at work now: that part is what quotas, shapes
    and drained nodes really leave to be used.
    """
    flavors = {fit.flavor for fit in record.backlog.plan.fits}
    pools = [pool for pool in state.pools.values() if pool.spec.flavor in flavors]
    running = [
        (runner, held_node_millionths(runner, pool))
        for pool in pools
        for runner in (state.jobs[job_id] for _, job_id in pool.ends)
    ]
    busy = sum(size for _, size in running)
    wanted = ahead.rival_size + size_millionths(record.backlog.plan)
    found: dict[EndOdds, int] = {}
    for odds in EndOdds:
        freed, at_ms = 0, now_ms
        for end_ms, size in sorted((expected_end_ms(r, odds, now_ms), n) for r, n in running):
            if freed >= min(wanted, busy // 2):
                break
            freed, at_ms = freed + size, end_ms
        if wanted >= busy // 2:
            at_ms = max(at_ms, now_ms + ahead.rival_work[odds] // max(1, busy))
        found[odds] = at_ms
    return found


def held_node_millionths(runner: JobRecord, pool: PoolState) -> int:
    """How much of a pool's nodes a running job takes, in millionths of one."""
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
    """Ready when the last dependency is done; then it waits for its own turn."""
    ready_ms = dict.fromkeys(EndOdds, now_ms)
    for number, dependency in enumerate(sorted(record.unmet)):
        other = state.jobs.get(dependency)
        if other is None:
            fate = state.finished.get(dependency, "unknown")
            return _never(f"it depends on {dependency}, which is {fate}")
        deep = LONGEST_CHAIN if number >= MOST_DEPENDENCIES else depth
        done_ms = _done_ms(state, other, now_ms, deep)
        if done_ms is None:
            return _never(f"it depends on {dependency}, for which no start can be foreseen")
        for odds in EndOdds:
            ready_ms[odds] = max(ready_ms[odds], done_ms[odds])
    with _as_if_ready(record):
        found = _wait(state, record, now_ms, ready_ms)
    waits_for = f"after {', '.join(sorted(record.unmet)[:3])}"
    return replace(found, note=f"{waits_for}; {found.note}" if found.note else waits_for)


def _done_ms(
    state: FleetState, record: JobRecord, now_ms: int, depth: int
) -> dict[EndOdds, int] | None:
    """When a dependency should have succeeded."""
    if record.state in LIVE:
        return {odds: expected_end_ms(record, odds, now_ms) for odds in EndOdds}
    runs_ms = {odds: remaining_run_ms(record, odds) for odds in EndOdds}
    if depth >= LONGEST_CHAIN:
        return {odds: now_ms + runs_ms[odds] for odds in EndOdds}
    start = forecast_record(state, record, now_ms, depth + 1)
    if start.p50_start_ms is None or start.p90_start_ms is None:
        return None
    return {
        EndOdds.EVEN: start.p50_start_ms + runs_ms[EndOdds.EVEN],
        EndOdds.NINE_IN_TEN: start.p90_start_ms + runs_ms[EndOdds.NINE_IN_TEN],
    }


@contextmanager
def _as_if_ready(record: JobRecord) -> Iterator[None]:
    """A job that waits for others, as if it already waited for room."""
    record.backlog.join(record)
    try:
        yield
    finally:
        record.backlog.leave(record)


def _not_waiting() -> Forecast:
    note = "it does not wait"
    return Forecast(p50_start_ms=None, p90_start_ms=None, basis=Basis.NOT_WAITING, note=note)


def _never(note: str) -> Forecast:
    return Forecast(p50_start_ms=None, p90_start_ms=None, basis=Basis.NEVER, note=note)


def _next_period(over: OverBudget) -> Forecast:
    """What stands before it then is not known yet: not before, is all that can be said."""
    return Forecast(
        p50_start_ms=over.period_ends_ms,
        p90_start_ms=over.period_ends_ms,
        basis=Basis.NEXT_PERIOD,
        note=f"at the earliest: the budget of {over.tenant} begins anew then",
    )


def _victims_leave(now_ms: int) -> Forecast:
    return Forecast(
        p50_start_ms=now_ms + STOP_MS[EndOdds.EVEN],
        p90_start_ms=now_ms + STOP_MS[EndOdds.NINE_IN_TEN],
        basis=Basis.VICTIMS_LEAVE,
        note="when those who hold its place have stopped",
    )

"""Run time and cost limits of attempts.

A job ends at the first of two limits: the longest that an attempt may run, and the most that all its
attempts together may be charged. It is charged the price of its placement for as long as it holds it, as in
the ledger: when the price changes, so does the cost limit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bursar.core.quota.charge import placement_micro_usd
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import StopJob, StopReason
from bursar.model.jobs.job import JobState
from bursar.model.units import HOUR_MS, write_duration, write_usd

if TYPE_CHECKING:
    from bursar.core.nodes.pool import PoolState
    from bursar.core.state.fleet_state import FleetState


def charged_micro_usd(record: JobRecord, now_ms: int) -> int:
    """What all attempts of a job cost up to now; counted only for jobs with a cost limit."""
    if record.placement is None:
        return record.charged_micro_usd
    held_ms = max(0, now_ms - record.assigned_at_ms)
    return record.charged_micro_usd + hourly_of(record) * held_ms // HOUR_MS


def hourly_of(record: JobRecord) -> int:
    """The current hourly price of a live attempt's placement."""
    if record.repriced_micro_usd is not None:
        return record.repriced_micro_usd
    return 0 if record.placement is None else record.placement.all_micro_usd_per_hour


def limit_at_ms(record: JobRecord) -> int | None:
    """When a started attempt must end; never before it started, because only then can it be stopped."""
    time_ms = _time_limit_ms(record)
    if record.spec.max_cost_micro_usd is None:
        return time_ms
    limits = [one for one in (time_ms, _cost_limit_ms(record)) if one is not None]
    return max(record.started_at_ms or 0, min(limits)) if limits else None


def _time_limit_ms(record: JobRecord) -> int | None:
    if record.spec.max_run_ms is None or record.started_at_ms is None:
        return None
    return record.started_at_ms + record.spec.max_run_ms


def _cost_limit_ms(record: JobRecord) -> int | None:
    """Early enough to pay for the grace period, which gets at most half of what is left."""
    paid_ms = _paid_for_ms(record)
    if paid_ms is None:
        return None
    return record.assigned_at_ms + paid_ms - min(record.spec.grace_ms, paid_ms // 2)


def _paid_for_ms(record: JobRecord) -> int | None:
    """How long the attempt can be paid for from its assignment; None: for ever."""
    ceiling, hourly = record.spec.max_cost_micro_usd, hourly_of(record)
    if ceiling is None or not hourly:
        return None
    left = max(0, ceiling - record.charged_micro_usd)
    return left * HOUR_MS // hourly


def paid_grace_ms(record: JobRecord, now_ms: int) -> int | None:
    """The grace period of an attempt at its cost limit; None: it stops for another reason."""
    paid_ms = _paid_for_ms(record)
    if paid_ms is None or record.state is not JobState.EXPIRING:
        return None
    if limit_reached(record) is not StopReason.COST_LIMIT:
        return None
    return max(0, record.assigned_at_ms + paid_ms - now_ms)


def reprice(state: FleetState, pool: PoolState, at_ms: int) -> None:
    """Apply a new price of a pool to the cost limits of its attempts.

    The charge is set as if the new price had always applied, so that one sum is enough.
    """
    for record in with_ceiling(state, pool.spec.name):
        placement = record.placement
        assert placement is not None
        parts = placement.parts
        price = sum(placement_micro_usd(state.pools[one.pool].spec, one.tasks) for one in parts)
        held_ms = max(0, at_ms - record.assigned_at_ms)
        more = (hourly_of(record) - price) * held_ms
        record.charged_micro_usd -= -more // HOUR_MS
        record.repriced_micro_usd = price
        if record.limit_at_ms is not None:
            del state.limits[bisect_left(state.limits, (record.limit_at_ms, record.id))]
            record.limit_at_ms = limit_at_ms(record)
            if record.limit_at_ms is not None:
                insort(state.limits, (record.limit_at_ms, record.id))


def with_ceiling(state: FleetState, pool: str) -> Iterator[JobRecord]:
    """The live attempts in a pool whose jobs have a cost limit."""
    for records in state.running_in.values():
        for record in records.values():
            placement = record.placement
            if record.spec.max_cost_micro_usd is not None and placement is not None:
                if placement.part_in(pool) is not None:
                    yield record


def stop_at_limit(record: JobRecord, now_ms: int) -> StopJob:
    """The order that stops an attempt at its limit."""
    reason = limit_reached(record)
    charged = charged_micro_usd(record, now_ms) if reason is StopReason.COST_LIMIT else 0
    return StopJob(
        job_id=record.id, attempt=record.attempt, reason=reason, charged_micro_usd=charged
    )


def limit_reached(record: JobRecord) -> StopReason:
    """Which of its limits an attempt reaches first."""
    time_ms, cost_ms = _time_limit_ms(record), _cost_limit_ms(record)
    if cost_ms is not None and (time_ms is None or cost_ms < time_ms):
        return StopReason.COST_LIMIT
    return StopReason.TIME_LIMIT


def write_limit(record: JobRecord, now_ms: int) -> str:
    """Describes the limit that an attempt reached."""
    ceiling, most_ms = record.spec.max_cost_micro_usd, record.spec.max_run_ms
    if limit_reached(record) is StopReason.COST_LIMIT and ceiling is not None:
        charged = write_usd(charged_micro_usd(record, now_ms))
        text = f"reached its cost ceiling (max_cost) of {write_usd(ceiling)}: charged {charged}"
        return f"{text}, the time to stop included" if record.spec.grace_ms else text
    return f"reached its maximum run time (max_hours) of {write_duration(most_ms or 0)}"

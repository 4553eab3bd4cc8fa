"""Computes spot costs, checkpoint advice and deadline slack of one job."""

from __future__ import annotations

from bursar.core.deadline.eligibility import work_of
from bursar.core.draft import Draft
from bursar.core.placement.pool_fit import PoolFit
from bursar.core.spot.pool_choice import DeadlineChoice
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.explain.spot_view import CheckpointAdviceView, DeadlineView, PoolCost, SpotView
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.checkpoint_formulas import (
    NEVER_ENDS_MS,
    USUAL_SAVE_MS,
    Interruptions,
    advise_interval,
    expected_run_ms,
    waste,
)
from bursar.model.jobs.job import JobSpec
from bursar.model.units import HOUR_MS, SECOND_MS

MOST_POOLS = 4
LEAST_GAIN_PERMILLE = 5
"""Advice that would save less time is not given."""
PERMILLE = 1_000


def spot_view(state: FleetState, record: JobRecord, now_ms: int) -> SpotView | None:
    """The spot view of a job; None if it may not use spot."""
    plan = record.backlog.plan
    if not any(fit.is_spot for fit in plan.fits):
        return None
    work_ms = work_of(record.spec) or plan.run_ms
    costs = tuple(_cost(fit, record.spec, work_ms) for fit in plan.fits[:MOST_POOLS])
    return SpotView(
        costs=costs,
        advice=_advice(record, work_ms),
        deadline=_deadline(state, record, now_ms),
    )


def _cost(fit: PoolFit, spec: JobSpec, work_ms: int) -> PoolCost:
    hazard = fit.hazard(fit.pool.interruptions_per_million_hours)
    run_ms = expected_run_ms(work_ms, spec.checkpoint, hazard)
    return PoolCost(
        pool=fit.pool.spec.name,
        anchors=None if fit.anchors is None else fit.anchors.name,
        anchor_tasks=0 if fit.anchors is None else sum(fit.parts(fit.plan.counts)[1][1]),
        tasks=fit.plan.tasks,
        market=fit.pool.spec.market,
        micro_usd_per_hour=fit.hourly_micro_usd,
        run_ms=work_ms,
        expected_run_ms=None if run_ms >= NEVER_ENDS_MS else run_ms,
        expected_micro_usd=fit.hourly_micro_usd * run_ms // HOUR_MS,
        between_ms=hazard.between_ms,
        saves_every_ms=spec.checkpoint.interval_ms,
    )


def _advice(record: JobRecord, work_ms: int) -> CheckpointAdviceView | None:
    """Advice for the job's current pool, else for its preferred spot pool."""
    fit = _spot_fit(record)
    if fit is None:
        return None
    hazard = fit.hazard(fit.pool.interruptions_per_million_hours)
    if hazard.between_ms is None:
        return None
    saving = record.spec.checkpoint
    save_ms = USUAL_SAVE_MS if record.save_ms is None else max(1, record.save_ms)
    failures = Interruptions(
        between_failures_seconds=hazard.between_ms / SECOND_MS,
        restart_seconds=saving.restart_ms / SECOND_MS,
    )
    best = advise_interval(save_ms / SECOND_MS, failures)
    if best.interval_seconds * SECOND_MS >= work_ms:
        return None
    current: int | None
    if saving.interval_ms is not None:
        fraction = waste(saving.interval_ms / SECOND_MS, save_ms / SECOND_MS, failures)
        current = round(fraction * PERMILLE)
    else:
        run_ms = expected_run_ms(work_ms, saving, hazard)
        current = None if run_ms >= NEVER_ENDS_MS else (run_ms - work_ms) * PERMILLE // work_ms
    advised = round(best.waste * PERMILLE)
    if current is not None and current - advised < LEAST_GAIN_PERMILLE:
        return None
    return CheckpointAdviceView(
        pool=fit.pool.spec.name,
        between_ms=hazard.between_ms,
        save_ms=save_ms,
        is_measured=record.save_ms is not None,
        saves_every_ms=saving.interval_ms,
        waste_permille=current,
        advised_every_ms=round(best.interval_seconds) * SECOND_MS,
        advised_waste_permille=advised,
    )


def _spot_fit(record: JobRecord) -> PoolFit | None:
    spot = [fit for fit in record.backlog.plan.fits if fit.pool.spec.market is Market.SPOT]
    if record.placement is not None:
        here = record.placement
        return next((fit for fit in spot if fit.is_at(here)), None)
    return spot[0] if spot else None


def _deadline(state: FleetState, record: JobRecord, now_ms: int) -> DeadlineView | None:
    draft = Draft(state, now_ms)
    choice = DeadlineChoice.of(draft, record) if record.id in state.backlogs.deadline_jobs else None
    if choice is None:
        return None
    return DeadlineView(
        left_ms=choice.progress.remaining_if_lost_ms,
        to_deadline_ms=choice.deadline_ms - now_ms,
        spot_safe_ms=choice.latest_start_ms() - now_ms,
        is_on_spot=choice.progress.location in state.spot.pools,
    )

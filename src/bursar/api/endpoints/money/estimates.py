"""What a job would cost on each pool that could run it, on every market, before it is submitted."""

from __future__ import annotations

from dataclasses import replace

from bursar.accounting.estimates.estimate import (
    CostEstimate,
    EstimateRequest,
    NotEstimated,
    PoolOffer,
    estimate_all,
)
from bursar.accounting.estimates.run_time import RunTime, told
from bursar.accounting.ledger.ledger import Ledger
from bursar.api import wire
from bursar.api.http.request import RequestContext
from bursar.control.queries.past_runs import similar_runs
from bursar.core.explain.preview import THIS_JOB, with_submitted
from bursar.core.placement.pool_fit import PoolFit
from bursar.core.state.fleet_state import FleetState
from bursar.model.event import JobSubmitted
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobSpec

UNKNOWN = (
    "How long it runs is not known: write expected_hours or max_hours; once five jobs of the queue like "
    "it have ended, theirs is taken."
)


async def plan_estimates(
    call: RequestContext, spec: JobSpec
) -> tuple[list[wire.PlanEstimate], str]:
    """Estimates, the cheapest first, and what they rest on; none where no run time is known."""
    alike = replace(spec, similarity_keys=(spec.queue, call.who.user, spec.name))
    run = await _run_time(call, alike)
    if run is None:
        return [], UNKNOWN
    offers, now_ms = await call.desk.query_ledger(
        lambda ledger, state, now_ms: (_offers(spec, ledger, state, now_ms), now_ms)
    )
    asked = EstimateRequest(spec=spec, run=run)
    found = await call.desk.read(estimate_all, asked, offers, now_ms)
    return [_estimate(one, spec) for one in found], run.basis


async def _run_time(call: RequestContext, spec: JobSpec) -> RunTime | None:
    """What the user expects; else what his queue's jobs like it took; else the longest it may run."""
    if spec.expected_run_ms is not None:
        return told(spec)
    runs = await call.desk.read(similar_runs, call.desk.plane.reader, spec.queue)
    return runs.run_time(spec, call.desk.clock.now_ms()) or told(spec)


def _offers(spec: JobSpec, ledger: Ledger, state: FleetState, now_ms: int) -> tuple[PoolOffer, ...]:
    """Every pool that could run it when empty, also on markets that the job does not ask for."""
    anywhere = replace(spec.constraints, markets=tuple(Market))
    wide = replace(spec, constraints=anywhere, array_size=1, depends_on=())
    event = JobSubmitted(at_ms=now_ms, job_id=THIS_JOB, spec=wide, priority=0)
    with with_submitted(state, event) as record:
        fits = record.backlog.plan.fits
    return tuple(_offer(fit, ledger) for fit in fits)


def _offer(fit: PoolFit, ledger: Ledger) -> PoolOffer:
    """A pool, or a spot pool with the pool of the anchors beside it."""
    found = [
        PoolOffer(
            pool=part.pool.spec,
            history=ledger.meter.prices.of(part.pool.spec.name),
            interruptions_per_million_hours=part.pool.interruptions_per_million_hours,
            groups=tuple(
                replace(group, count=count)
                for group, count in zip(fit.plan.groups, counts, strict=True)
            ),
        )
        for part, counts in fit.parts(fit.plan.counts)
    ]
    return found[0] if fit.anchors is None else replace(found[0], anchors=found[1])


def _estimate(found: CostEstimate | NotEstimated, spec: JobSpec) -> wire.PlanEstimate:
    is_allowed = found.option in spec.constraints.markets
    if isinstance(found, NotEstimated):
        return {
            "pool": found.pool,
            "market": found.option.value,
            "is_allowed": is_allowed,
            "p50_micro_usd": None,
            "p90_micro_usd": None,
            "p50_ms": None,
            "p90_ms": None,
            "basis": "",
            "warnings": [],
            "reason": found.reason,
        }
    members = spec.array_size
    return {
        "pool": found.pool,
        "market": found.option.value,
        "is_allowed": is_allowed,
        "p50_micro_usd": found.p50_micro_usd * members,
        "p90_micro_usd": found.p90_micro_usd * members,
        "p50_ms": found.p50_ms,
        "p90_ms": found.p90_ms,
        "basis": found.basis,
        "warnings": list(found.warnings),
        "reason": "",
    }

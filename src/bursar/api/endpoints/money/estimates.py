"""Estimates the cost of a planned job on each pool that could run it, on every market."""

from __future__ import annotations

from dataclasses import replace

from bursar.accounting.estimates.estimate import (
    CostEstimate,
    EstimateRequest,
    NotEstimated,
    PoolOffer,
    estimate_all,
)
from bursar.accounting.estimates.run_time import RunTime, user_estimate
from bursar.accounting.ledger.ledger import Ledger
from bursar.api import wire
from bursar.api.http.request import RequestContext
from bursar.api.wire.views import to_wire
from bursar.control.queries.past_runs import similar_runs
from bursar.core.explain.preview import THIS_JOB, with_submitted
from bursar.core.placement.pool_fit import PoolFit
from bursar.core.state.fleet_state import FleetState
from bursar.model.event import JobSubmitted
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobSpec

UNKNOWN = (
    "The run time is not known: write expected_hours or max_hours. Once five similar jobs of the queue "
    "have ended, their run times are used."
)


async def plan_estimates(
    request: RequestContext, spec: JobSpec
) -> tuple[list[wire.PlanEstimate], str]:
    """Estimates, the cheapest first, and their basis; none if no run time is known."""
    labelled = replace(spec, similarity_keys=(spec.queue, request.caller.user, spec.name))
    run = await _run_time(request, labelled)
    if run is None:
        return [], UNKNOWN
    offers, now_ms = await request.context.query_ledger(
        lambda ledger, state, now_ms: (_offers(spec, ledger, state, now_ms), now_ms)
    )
    estimates = await request.context.run_blocking(
        estimate_all, EstimateRequest(spec=spec, run=run), offers, now_ms
    )
    return [_estimate(one, spec) for one in estimates], run.basis


async def _run_time(request: RequestContext, spec: JobSpec) -> RunTime | None:
    """The user's estimate; else that of similar jobs of the queue; else the maximum run time."""
    if spec.expected_run_ms is not None:
        return user_estimate(spec)
    runs = await request.read_store(similar_runs, spec.queue)
    return runs.run_time(spec, request.context.clock.now_ms()) or user_estimate(spec)


def _offers(spec: JobSpec, ledger: Ledger, state: FleetState, now_ms: int) -> tuple[PoolOffer, ...]:
    """Every pool that could run the job when empty, on all markets."""
    all_markets = replace(spec.constraints, markets=tuple(Market))
    single = replace(spec, constraints=all_markets, array_size=1, depends_on=())
    event = JobSubmitted(at_ms=now_ms, job_id=THIS_JOB, spec=single, priority=0)
    with with_submitted(state, event) as record:
        fits = record.backlog.plan.fits
    return tuple(_offer(fit, ledger) for fit in fits)


def _offer(fit: PoolFit, ledger: Ledger) -> PoolOffer:
    """A pool; of a mixed gang the spot pool with the pool of its anchors."""
    offers = [
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
    return offers[0] if fit.anchors is None else replace(offers[0], anchors=offers[1])


def _estimate(one: CostEstimate | NotEstimated, spec: JobSpec) -> wire.PlanEstimate:
    market = {"market": one.option.value, "is_allowed": one.option in spec.constraints.markets}
    if isinstance(one, NotEstimated):
        no_amounts = dict.fromkeys(("p50_micro_usd", "p90_micro_usd", "p50_ms", "p90_ms"))
        return to_wire(one, wire.PlanEstimate, **market, **no_amounts, basis="", warnings=[])
    return to_wire(
        one,
        wire.PlanEstimate,
        **market,
        p50_micro_usd=one.p50_micro_usd * spec.array_size,
        p90_micro_usd=one.p90_micro_usd * spec.array_size,
        reason="",
    )

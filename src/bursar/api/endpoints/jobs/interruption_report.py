"""Why a job was interrupted, what that cost, and what would help."""

from __future__ import annotations

from dataclasses import replace

from starlette.responses import Response

from bursar.api import wire
from bursar.api.endpoints.visibility import find_job
from bursar.api.http.request import RequestContext, answer
from bursar.core.explain.interruption_report import PoolPrice, interruption_report
from bursar.core.state.fleet_state import FleetState
from bursar.governance.eligible_pools import options_of
from bursar.model.explain.interruption_report import InterruptionReport


async def why_preempted(call: RequestContext) -> Response:
    """The story of a job's interruptions, from its log."""
    row = await find_job(call)
    recorded = await call.desk.read(call.desk.plane.reader.events_of, row.id)

    def question(state: FleetState, _now_ms: int) -> list[PoolPrice]:
        return [
            PoolPrice(pool=one.pool, market=one.market, micro_usd_per_hour=one.micro_usd_per_hour)
            for one in options_of(row.spec, state)
        ]

    elsewhere = await call.desk.ask(question)
    story = interruption_report(row.id, [one.event for one in recorded], elsewhere)
    return answer(_told(replace(story, state=row.state, attempts=row.attempt)))


def _told(story: InterruptionReport) -> wire.InterruptionReportView:
    return {
        "id": story.job_id,
        "interruptions": [
            {
                "at_ms": one.at_ms,
                "attempt": one.attempt,
                "cause": one.cause.value,
                "pool": one.pool,
                "ran_ms": one.ran_ms,
                "lost_ms": one.lost_ms,
                "lost_micro_usd": one.lost_micro_usd,
                "recovery_ms": one.recovery_ms,
                "waited_ms": one.waited_ms,
            }
            for one in story.interruptions
        ],
        "mean_run_ms": story.mean_run_ms,
        "saves": story.saves,
        "saves_every_ms": story.saves_every_ms,
        "save_ms": story.save_ms,
        "advised_every_ms": story.advised_every_ms,
        "mean_recovery_ms": story.mean_recovery_ms,
        "waited_ms": story.waited_ms,
        "lost_ms": story.lost_ms,
        "lost_micro_usd": story.lost_micro_usd,
        "spent_micro_usd": story.spent_micro_usd,
        "advice": list(story.advice),
        "text": list(story.lines()),
    }

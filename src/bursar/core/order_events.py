"""The events that a committed decision writes to the log."""

from __future__ import annotations

from typing import assert_never

from bursar.model.decision import (
    ClaimPlacement,
    Decision,
    EvacuateJob,
    Hold,
    PartitionGpu,
    PreemptJob,
    ReleaseClaim,
    StartJob,
    StopJob,
    StopReason,
)
from bursar.model.event import (
    AttemptAssigned,
    AttemptExpired,
    AttemptStopping,
    ClaimReleased,
    Event,
    GpuPartitioned,
    PlacementClaimed,
)

SPOT_NOTICE = "spot notice"
"""Why an attempt stops whose node the provider reclaims."""


def events_for(decision: Decision, now_ms: int) -> tuple[Event, ...]:
    """The events of a committed decision; a hold has none."""
    match decision:
        case StartJob(job_id=job_id, attempt=attempt, placement=placement):
            return (
                AttemptAssigned(at_ms=now_ms, job_id=job_id, attempt=attempt, placement=placement),
            )
        case PreemptJob(job_id=job_id, attempt=attempt):
            stopping = AttemptStopping(
                at_ms=now_ms,
                job_id=job_id,
                attempt=attempt,
                on_behalf_of=decision.on_behalf_of,
                why=decision.reason.value,
                lost_micro_usd=decision.lost_micro_usd,
            )
            return (stopping,)
        case StopJob(reason=StopReason.TIME_LIMIT | StopReason.COST_LIMIT as limit):
            expired = AttemptExpired(
                at_ms=now_ms,
                job_id=decision.job_id,
                attempt=decision.attempt,
                why=limit.value,
                charged_micro_usd=decision.charged_micro_usd,
            )
            return (expired,)
        case StopJob(job_id=job_id, attempt=attempt, reason=reason):
            why = "" if reason is StopReason.CANCELLED else reason.value
            return (AttemptStopping(at_ms=now_ms, job_id=job_id, attempt=attempt, why=why),)
        case EvacuateJob(job_id=job_id, attempt=attempt):
            leaving = AttemptStopping(
                at_ms=now_ms,
                job_id=job_id,
                attempt=attempt,
                why=SPOT_NOTICE,
                lost_micro_usd=decision.lost_micro_usd,
            )
            return (leaving,)
        case ClaimPlacement(job_id=job_id, placement=placement, victims=victims):
            return (
                PlacementClaimed(at_ms=now_ms, job_id=job_id, placement=placement, victims=victims),
            )
        case ReleaseClaim(job_id=job_id):
            return (ClaimReleased(at_ms=now_ms, job_id=job_id),)
        case PartitionGpu(node=node, gpu=gpu, layout=layout):
            return (GpuPartitioned(at_ms=now_ms, node=node, gpu=gpu, layout=layout),)
        case Hold():
            return ()
        case _:
            assert_never(decision)

"""What an order becomes when it is committed: the facts that bind everybody from then on."""

from __future__ import annotations

from typing import assert_never

from bursar.model.decision import (
    ClaimRoom,
    Decision,
    Hold,
    PartitionGpu,
    PreemptJob,
    ReleaseRoom,
    StartJob,
    StopJob,
    StopReason,
)
from bursar.model.event import (
    AttemptAssigned,
    AttemptExpired,
    AttemptStopping,
    Event,
    GpuPartitioned,
    RoomClaimed,
    RoomReleased,
)


def events_for(decision: Decision, now_ms: int) -> tuple[Event, ...]:
    """The events that a committed decision writes to the log; a hold writes none."""
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
        case StopJob(job_id=job_id, attempt=attempt, reason=reason):
            told = AttemptExpired if reason is StopReason.TIME_LIMIT else AttemptStopping
            return (told(at_ms=now_ms, job_id=job_id, attempt=attempt),)
        case ClaimRoom(job_id=job_id, placement=placement, victims=victims):
            return (RoomClaimed(at_ms=now_ms, job_id=job_id, placement=placement, victims=victims),)
        case ReleaseRoom(job_id=job_id):
            return (RoomReleased(at_ms=now_ms, job_id=job_id),)
        case PartitionGpu(node=node, gpu=gpu, layout=layout):
            return (GpuPartitioned(at_ms=now_ms, node=node, gpu=gpu, layout=layout),)
        case Hold():
            return ()
        case _:
            assert_never(decision)

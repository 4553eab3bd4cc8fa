"""Our values as wire values. What belongs to another tenant is left out or named as such here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, cast

from bursar.api import wire
from bursar.core.state.fleet_state import FleetState
from bursar.model.event import (
    AttemptAssigned,
    AttemptExpired,
    AttemptPreempted,
    AttemptResumed,
    AttemptStopping,
    CheckpointSaved,
    JobSubmitted,
    LoggedEvent,
    PlacementClaimed,
    SpotNotice,
)
from bursar.model.explain.explanation import (
    Alternative,
    CapacityHolding,
    Explanation,
    Forecast,
    QuotaHolding,
)
from bursar.model.explain.job_history import PastEvent, PastPreemption, history_line
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec, WholeGpus
from bursar.model.reason import OverBudget, Reason, WaitsForVictims, WouldDelay
from bursar.model.tenants.identity import Token
from bursar.ports import AttemptRow, JobProgress, JobRow, Recorded

ANOTHERS_JOB = "another tenant's job"

Seen = Callable[[str], bool]
"""Whether a job id is one that the reader may know."""


# -- jobs --------------------------------------------------------------------------------------------


def nodes_of(placement: Placement | None) -> list[str]:
    """The nodes of a placement, each once, in order."""
    return sorted({task.node for task in placement.all_tasks}) if placement is not None else []


def pools_of(placement: Placement) -> str:
    """Its pool; of a mixed gang the spot pool and that of its anchors."""
    return "+".join(part.pool for part in placement.parts)


def gpus_held(placement: Placement | None) -> int:
    """Distinct GPUs that a placement touches."""
    if placement is None:
        return 0
    touched = set()
    for task in placement.all_tasks:
        touched |= {(task.node, gpu) for gpu in task.gpus}
        touched |= {(task.node, use.gpu) for use in task.slices}
        touched |= {(task.node, use.gpu) for use in task.shares}
    return len(touched)


def gpus_wanted(spec: JobSpec) -> int:
    """GPUs a job asks for; a slice or a share of one counts as one."""
    return sum(
        group.count * (group.gpu.count if isinstance(group.gpu, WholeGpus) else 1)
        for group in spec.groups
        if group.gpu is not None
    )


def job(row: JobRow) -> wire.JobView:
    """A job as lists show it."""
    placement = row.placement
    return {
        "id": row.id,
        "name": row.name,
        "queue": row.queue,
        "owner": row.owner,
        "state": row.state.value,
        "priority": row.priority,
        "attempt": row.attempt,
        "failures": row.failures,
        "preemptions": row.preemptions,
        "submitted_at_ms": row.submitted_at_ms,
        "started_at_ms": row.started_at_ms,
        "ended_at_ms": row.ended_at_ms,
        "exit_code": row.exit_code,
        "exit_signal": row.exit_signal,
        "exit_detail": row.exit_detail,
        "nodes": nodes_of(placement),
        "gpus": gpus_held(placement) if placement is not None else gpus_wanted(row.spec),
        "pool": pools_of(placement) if placement is not None else None,
        "micro_usd_per_hour": placement.all_micro_usd_per_hour if placement is not None else None,
        "saved_step": row.saved_step,
        "resumed_step": row.resumed_step,
        "recovered": row.is_recovered,
        "progress": progress(row.progress) if row.progress is not None else None,
        "labels": dict(row.labels),
    }


def progress(found: JobProgress) -> wire.ProgressView:
    return {
        "attempt": found.attempt,
        "step": found.step,
        "total": found.total,
        "permille": found.permille,
        "at_ms": found.at_ms,
        "expected_end_ms": found.expected_end_ms,
    }


def attempt(row: AttemptRow) -> wire.Attempt:
    return {
        "attempt": row.attempt,
        "pool": pools_of(row.placement),
        "flavor": "+".join(part.flavor for part in row.placement.parts),
        "nodes": nodes_of(row.placement),
        "micro_usd_per_hour": row.placement.all_micro_usd_per_hour,
        "assigned_at_ms": row.assigned_at_ms,
        "started_at_ms": row.started_at_ms,
        "ended_at_ms": row.ended_at_ms,
        "saved_at_ms": row.saved_at_ms,
        "saved_step": row.saved_step,
        "resumed_at_ms": row.resumed_at_ms,
        "resumed_step": row.resumed_step,
        "outcome": row.outcome,
        "exit_code": row.exit_code,
        "exit_signal": row.exit_signal,
        "exit_detail": row.exit_detail,
    }


def job_event(recorded: Recorded, queue: str | None = None) -> wire.JobEventView | None:
    """An event of a job; None for one that is about something else."""
    event = recorded.event
    job_id = getattr(event, "job_id", None)
    if job_id is None:
        return None
    found: wire.JobEventView = {
        "sequence": recorded.sequence,
        "at_ms": event.at_ms,
        "type": type(event).__name__,
        "job_id": job_id,
        "detail": _detail(event),
    }
    if queue is not None:
        found["queue"] = queue
    number = getattr(event, "attempt", None)
    if number is not None:
        found["attempt"] = number
    return found


def _detail(event: LoggedEvent) -> dict[str, Any]:
    """What else an event says, without what belongs to others and without the whole job."""
    if isinstance(event, JobSubmitted):
        spec = event.spec
        return {"name": spec.name, "queue": spec.queue, "priority": event.priority}
    if isinstance(event, AttemptAssigned):
        return _place(event.placement)
    if isinstance(event, PlacementClaimed):
        return {**_place(event.placement), "victims": len(event.victims)}
    if isinstance(event, AttemptStopping) and event.why:
        return {"why": event.why, "lost_micro_usd": event.lost_micro_usd}
    if isinstance(event, AttemptExpired):
        return {"why": event.why, "charged_micro_usd": event.charged_micro_usd}
    if isinstance(event, CheckpointSaved | AttemptResumed | SpotNotice):
        told = {name: getattr(event, name, None) for name in TOLD}
        return {name: value for name, value in told.items() if value is not None}
    ended = getattr(event, "exit", None)
    if ended is not None:
        cause = {"cause": event.cause.value} if isinstance(event, AttemptPreempted) else {}
        how = {"exit_code": ended.code, "exit_signal": ended.signal, "exit_detail": ended.detail}
        return how | cause
    return {}


TOLD = ("step", "save_ms", "size_bytes", "source", "kind", "ends_at_ms")
"""What is told of events on the way."""


def _place(placement: Placement) -> dict[str, Any]:
    return {
        "pool": pools_of(placement),
        "nodes": nodes_of(placement),
        "micro_usd_per_hour": placement.all_micro_usd_per_hour,
    }


# -- why ---------------------------------------------------------------------------------------------


def redacted(explanation: Explanation, seen: frozenset[str] | None, sees: Seen) -> Explanation:
    """An explanation in which other tenants' jobs and queues have no names."""
    if seen is None:
        return explanation
    return replace(
        explanation,
        victims_stopping=tuple(_job(one, sees) for one in explanation.victims_stopping),
        reasons=tuple(
            redacted_reason(hide_spending(one, seen), sees) for one in explanation.reasons
        ),
        holdings=tuple(_holding(one, seen) for one in explanation.holdings),
        alternatives=tuple(one for one in explanation.alternatives if one.spec.queue in seen),
    )


def redacted_reason(reason: Reason, sees: Seen) -> Reason:
    """A reason in which other tenants' jobs have no names. Those it depends on its user has named himself."""
    match reason:
        case WouldDelay():
            return replace(reason, job_id=_job(reason.job_id, sees))
        case WaitsForVictims():
            return replace(reason, victims=tuple(_job(one, sees) for one in reason.victims))
        case _:
            return reason


def hide_spending(reason: Reason, seen: frozenset[str] | None) -> Reason:
    """A reason without what tenants have spent together whom the caller does not all see."""
    if not isinstance(reason, OverBudget) or seen is None or seen.issuperset(reason.queues):
        return reason
    return replace(reason, spent_micro_usd=0, amount_micro_usd=0, queues=(), is_hidden=True)


def _job(job_id: str, sees: Seen) -> str:
    return job_id if sees(job_id) else ANOTHERS_JOB


def _holding(
    holding: QuotaHolding | CapacityHolding, seen: frozenset[str]
) -> QuotaHolding | CapacityHolding:
    if isinstance(holding, QuotaHolding):
        return replace(
            holding,
            holders=tuple(
                one if one.queue in seen else replace(one, queue=wire.ANOTHER_TENANT)
                for one in holding.holders
            ),
        )
    return replace(
        holding,
        holders=tuple(
            one if one.queue in seen else replace(one, job_id="a job", queue=wire.ANOTHER_TENANT)
            for one in holding.holders
        ),
    )


def who_sees(state: FleetState, seen: frozenset[str] | None, own_id: str = "") -> Seen:
    """Whether a job may be named to somebody; one that is over and gone may not."""

    def sees(job_id: str) -> bool:
        if seen is None or job_id == own_id:
            return True
        record = state.jobs.get(job_id)
        return record is not None and record.spec.queue in seen

    return sees


def explanation(found: Explanation) -> wire.ExplanationView:
    return {
        "id": found.job_id,
        "state": found.state.value,
        "queue": found.queue,
        "reasons": [reason(one) for one in found.reasons],
        "position": cast(wire.QueuePositionView, asdict(found.position))
        if found.position
        else None,
        "forecast": forecast(found.forecast, found.now_ms) if found.forecast else None,
        "holders": [
            {"type": type(one).__name__, "text": str(one), "numbers": plain(one)}
            for one in found.holdings
        ],
        "fair_shares": [
            cast(wire.FairShareView, {**plain(one), "text": str(one)}) for one in found.fair_shares
        ],
        "alternatives": [alternative(one) for one in found.alternatives],
        "expected_end_ms": found.expected_end_ms,
        "micro_usd_per_hour": _price(found),
        "history": [past_event(one, found.now_ms) for one in found.history],
        "text": list(found.lines()),
    }


def _price(found: Explanation) -> int | None:
    place = found.runs_on or found.starts_on
    return found.cheapest_micro_usd_per_hour if place is None else place.all_micro_usd_per_hour


def past_event(found: PastEvent, now_ms: int) -> wire.JobHistoryView:
    numbers = plain(found)
    at_ms, attempt_number = numbers.pop("at_ms"), numbers.pop("attempt")
    return {
        "type": type(found).__name__,
        "at_ms": at_ms,
        "attempt": attempt_number,
        "text": history_line(found, now_ms),
        "numbers": numbers,
    }


def named_past(
    events: tuple[PastEvent, ...], queues: Mapping[str, str], seen: frozenset[str] | None
) -> tuple[PastEvent, ...]:
    """What befell a job, with the queue of whoever took its place, or without his name.

    ``queues`` has the queue of each job that is known; of the others nobody may be told.
    """
    return tuple(
        _named(one, queues, seen) if isinstance(one, PastPreemption) else one for one in events
    )


def _named(
    one: PastPreemption, queues: Mapping[str, str], seen: frozenset[str] | None
) -> PastPreemption:
    queue = queues.get(one.on_behalf_of)
    if seen is None:
        return replace(one, queue=queue or "")
    if queue is None or queue not in seen:
        return replace(one, on_behalf_of="a job", queue=wire.ANOTHER_TENANT)
    return replace(one, queue=queue)


def reason(found: Reason) -> wire.ReasonView:
    return {"type": type(found).__name__, "text": str(found), "numbers": plain(found)}


def forecast(found: Forecast, now_ms: int) -> wire.StartForecast:
    return {
        "p50_start_ms": found.p50_start_ms,
        "p90_start_ms": found.p90_start_ms,
        "basis": found.basis.value,
        "note": found.note,
        "text": found.line(now_ms),
    }


def alternative(found: Alternative) -> wire.AlternativeView:
    return {
        "change": found.change,
        "pool": found.pool,
        "micro_usd_per_hour": found.micro_usd_per_hour,
        "expected_micro_usd": found.expected_micro_usd,
        "text": str(found),
    }


# -- the rest ----------------------------------------------------------------------------------------


def token(found: Token) -> wire.TokenRow:
    """A token without anything that would help to make it."""
    return {
        "id": found.id,
        "user": found.user,
        "role": found.role.value,
        "tenant": found.tenant,
        "scopes": [one.value for one in found.scopes],
        "created_at_ms": found.created_at_ms,
        "created_by": found.created_by,
        "expires_at_ms": found.expires_at_ms,
        "revoked_at_ms": found.revoked_at_ms,
        "last_used_at_ms": found.last_used_at_ms,
    }


def plain(value: Any) -> Any:
    """A frozen value as plain ones."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    return value

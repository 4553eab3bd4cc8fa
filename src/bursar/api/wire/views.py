"""Builds wire values from rows and model values; redacts what belongs to other tenants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, NotRequired, TypeVar, cast, get_origin, get_type_hints

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
from bursar.ports import AttemptRow, JobRow, Recorded

OTHER_TENANTS_JOB = "another tenant's job"

JobVisibility = Callable[[str], bool]
"""Whether the caller may see the job with an id."""

W = TypeVar("W")


def to_wire(row: object, wire_type: type[W], /, **own: Any) -> W:
    """Builds a wire value: each key is the row's attribute of that name, unless ``own`` has it."""
    keys = _keys(wire_type)  # type: ignore[arg-type]
    unknown = own.keys() - keys.keys()
    if unknown:
        raise TypeError(f"{wire_type.__name__} has no key {min(unknown)}")
    values = {
        key: own[key] if key in own else plain(getattr(row, key))
        for key, is_required in keys.items()
        if is_required or key in own
    }
    return cast(W, values)


@cache
def _keys(wire_type: Any) -> dict[str, bool]:
    """The keys of a TypedDict in order, and whether each is required."""
    hints = get_type_hints(wire_type, include_extras=True)
    return {key: get_origin(hint) is not NotRequired for key, hint in hints.items()}


def plain(value: Any) -> Any:
    """Converts a value to JSON types: dataclasses to dicts, enums to their values, sequences to lists."""
    if value is None or type(value) in _JSON_TYPES:
        return value
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    return value


_JSON_TYPES = frozenset({str, int, float, bool})


# -- jobs --------------------------------------------------------------------------------------------


def nodes_of(placement: Placement | None) -> list[str]:
    """The distinct nodes of a placement, sorted."""
    return sorted({task.node for task in placement.all_tasks}) if placement is not None else []


def pools_of(placement: Placement) -> str:
    """The pool of a placement; of a mixed gang the spot pool and the pool of its anchors."""
    return "+".join(part.pool for part in placement.parts)


def flavors_of(placement: Placement) -> str:
    return "+".join(part.flavor for part in placement.parts)


def gpus_held(placement: Placement | None) -> int:
    """The number of distinct GPUs that a placement uses."""
    if placement is None:
        return 0
    gpus = set()
    for task in placement.all_tasks:
        gpus |= {(task.node, gpu) for gpu in task.gpus}
        gpus |= {(task.node, use.gpu) for use in task.slices}
        gpus |= {(task.node, use.gpu) for use in task.shares}
    return len(gpus)


def gpus_requested(spec: JobSpec) -> int:
    """The GPUs that a job requests; a slice or a share of one counts as one."""
    return sum(
        group.count * (group.gpu.count if isinstance(group.gpu, WholeGpus) else 1)
        for group in spec.groups
        if group.gpu is not None
    )


def job(row: JobRow) -> wire.JobView:
    """A job as in lists."""
    placement, progress = row.placement, row.progress
    return to_wire(
        row,
        wire.JobView,
        nodes=nodes_of(placement),
        gpus=gpus_held(placement) if placement is not None else gpus_requested(row.spec),
        pool=pools_of(placement) if placement is not None else None,
        micro_usd_per_hour=placement.all_micro_usd_per_hour if placement is not None else None,
        recovered=row.is_recovered,
        progress=to_wire(progress, wire.ProgressView) if progress is not None else None,
    )


def attempt(row: AttemptRow) -> wire.Attempt:
    return to_wire(
        row,
        wire.Attempt,
        pool=pools_of(row.placement),
        flavor=flavors_of(row.placement),
        nodes=nodes_of(row.placement),
        micro_usd_per_hour=row.placement.all_micro_usd_per_hour,
    )


def job_event(recorded: Recorded, queue: str | None = None) -> wire.JobEventView | None:
    """An event of a job; None for other events."""
    event = recorded.event
    job_id = getattr(event, "job_id", None)
    if job_id is None:
        return None
    view: wire.JobEventView = {
        "sequence": recorded.sequence,
        "at_ms": event.at_ms,
        "type": type(event).__name__,
        "job_id": job_id,
        "detail": _detail(event),
    }
    if queue is not None:
        view["queue"] = queue
    number = getattr(event, "attempt", None)
    if number is not None:
        view["attempt"] = number
    return view


def _detail(event: LoggedEvent) -> dict[str, Any]:
    """Further fields of an event, without other tenants' jobs and without the job document."""
    if isinstance(event, JobSubmitted):
        spec = event.spec
        return {"name": spec.name, "queue": spec.queue, "priority": event.priority}
    if isinstance(event, AttemptAssigned):
        return _placement(event.placement)
    if isinstance(event, PlacementClaimed):
        return {**_placement(event.placement), "victims": len(event.victims)}
    if isinstance(event, AttemptStopping) and event.why:
        return {"why": event.why, "lost_micro_usd": event.lost_micro_usd}
    if isinstance(event, AttemptExpired):
        return {"why": event.why, "charged_micro_usd": event.charged_micro_usd}
    if isinstance(event, CheckpointSaved | AttemptResumed | SpotNotice):
        values = {name: getattr(event, name, None) for name in DETAIL_FIELDS}
        return {name: value for name, value in values.items() if value is not None}
    exit_status = getattr(event, "exit", None)
    if exit_status is not None:
        cause = {"cause": event.cause.value} if isinstance(event, AttemptPreempted) else {}
        return {
            "exit_code": exit_status.code,
            "exit_signal": exit_status.signal,
            "exit_detail": exit_status.detail,
            **cause,
        }
    return {}


DETAIL_FIELDS = ("step", "save_ms", "size_bytes", "source", "kind", "ends_at_ms")
"""Fields of checkpoint, resume and spot events that are sent."""


def _placement(placement: Placement) -> dict[str, Any]:
    return {
        "pool": pools_of(placement),
        "nodes": nodes_of(placement),
        "micro_usd_per_hour": placement.all_micro_usd_per_hour,
    }


# -- explanations ------------------------------------------------------------------------------------


def redact(
    explanation: Explanation, visible: frozenset[str] | None, can_see: JobVisibility
) -> Explanation:
    """Removes the names of other tenants' jobs and queues from an explanation."""
    if visible is None:
        return explanation
    return replace(
        explanation,
        victims_stopping=tuple(_redact_id(one, can_see) for one in explanation.victims_stopping),
        reasons=tuple(
            redact_reason(hide_spending(one, visible), can_see) for one in explanation.reasons
        ),
        holdings=tuple(_redact_holding(one, visible) for one in explanation.holdings),
        alternatives=tuple(one for one in explanation.alternatives if one.spec.queue in visible),
    )


def redact_reason(reason: Reason, can_see: JobVisibility) -> Reason:
    """Removes the ids of other tenants' jobs from a reason; dependencies were named by the user."""
    match reason:
        case WouldDelay():
            return replace(reason, job_id=_redact_id(reason.job_id, can_see))
        case WaitsForVictims():
            return replace(
                reason, victims=tuple(_redact_id(one, can_see) for one in reason.victims)
            )
        case _:
            return reason


def hide_spending(reason: Reason, visible: frozenset[str] | None) -> Reason:
    """Removes the amounts of a budget unless the caller may see all its queues."""
    if not isinstance(reason, OverBudget) or visible is None or visible.issuperset(reason.queues):
        return reason
    return replace(reason, spent_micro_usd=0, amount_micro_usd=0, queues=(), is_hidden=True)


def _redact_id(job_id: str, can_see: JobVisibility) -> str:
    return job_id if can_see(job_id) else OTHER_TENANTS_JOB


def _redact_holding(
    holding: QuotaHolding | CapacityHolding, visible: frozenset[str]
) -> QuotaHolding | CapacityHolding:
    if isinstance(holding, QuotaHolding):
        return replace(
            holding,
            holders=tuple(
                one if one.queue in visible else replace(one, queue=wire.ANOTHER_TENANT)
                for one in holding.holders
            ),
        )
    return replace(
        holding,
        holders=tuple(
            one if one.queue in visible else replace(one, job_id="a job", queue=wire.ANOTHER_TENANT)
            for one in holding.holders
        ),
    )


def job_visibility(
    state: FleetState, visible: frozenset[str] | None, own_id: str = ""
) -> JobVisibility:
    """A predicate: which live jobs the caller may see. Jobs no longer in the state are hidden."""

    def can_see(job_id: str) -> bool:
        if visible is None or job_id == own_id:
            return True
        record = state.jobs.get(job_id)
        return record is not None and record.spec.queue in visible

    return can_see


def explanation(one: Explanation) -> wire.ExplanationView:
    return to_wire(
        one,
        wire.ExplanationView,
        id=one.job_id,
        reasons=[reason(value) for value in one.reasons],
        position=asdict(one.position) if one.position else None,
        forecast=forecast(one.forecast, one.now_ms) if one.forecast else None,
        holders=[reason(value) for value in one.holdings],
        fair_shares=[{**plain(value), "text": str(value)} for value in one.fair_shares],
        alternatives=[alternative(value) for value in one.alternatives],
        micro_usd_per_hour=price_per_hour(one),
        history=[history_entry(value, one.now_ms) for value in one.history],
        text=list(one.lines()),
    )


def price_per_hour(one: Explanation) -> int | None:
    """The price where the job runs or would start; else that of the cheapest pool that could run it."""
    placement = one.runs_on or one.starts_on
    if placement is None:
        return one.cheapest_micro_usd_per_hour
    return placement.all_micro_usd_per_hour


def history_entry(event: PastEvent, now_ms: int) -> wire.JobHistoryView:
    numbers = plain(event)
    at_ms, attempt_number = numbers.pop("at_ms"), numbers.pop("attempt")
    return {
        "type": type(event).__name__,
        "at_ms": at_ms,
        "attempt": attempt_number,
        "text": history_line(event, now_ms),
        "numbers": numbers,
    }


def redact_history(
    events: tuple[PastEvent, ...], queues: Mapping[str, str], visible: frozenset[str] | None
) -> tuple[PastEvent, ...]:
    """Adds the queue of each preemptor, or removes its id if the caller may not see it.

    ``queues`` has the queue of each known preemptor by job id; unknown ones are hidden.
    """
    return tuple(
        _redact_preemptor(one, queues, visible) if isinstance(one, PastPreemption) else one
        for one in events
    )


def _redact_preemptor(
    one: PastPreemption, queues: Mapping[str, str], visible: frozenset[str] | None
) -> PastPreemption:
    queue = queues.get(one.on_behalf_of)
    if visible is None:
        return replace(one, queue=queue or "")
    if queue is None or queue not in visible:
        return replace(one, on_behalf_of="a job", queue=wire.ANOTHER_TENANT)
    return replace(one, queue=queue)


def reason(value: Reason | QuotaHolding | CapacityHolding) -> wire.ReasonView:
    return {"type": type(value).__name__, "text": str(value), "numbers": plain(value)}


def forecast(value: Forecast, now_ms: int) -> wire.StartForecast:
    return to_wire(value, wire.StartForecast, text=value.line(now_ms))


def alternative(value: Alternative) -> wire.AlternativeView:
    return to_wire(value, wire.AlternativeView, text=str(value))

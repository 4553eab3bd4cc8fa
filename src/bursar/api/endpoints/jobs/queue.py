"""Who waits and in which order, and what would become of a job that is not submitted yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from starlette.responses import Response

from bursar.api import wire
from bursar.api.endpoints.jobs.submit import keep_to_tenant, read_document
from bursar.api.endpoints.money.budgets import budget_problem
from bursar.api.endpoints.money.estimates import plan_estimates
from bursar.api.endpoints.pagination import read_cursor, write_cursor
from bursar.api.http.request import RequestContext, answer
from bursar.api.wire import views
from bursar.catalog.gpu_models import GPU_MODELS
from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.cheapest import cheapest_micro_usd_per_hour
from bursar.core.explain.preview import THIS_JOB, Preview, preview
from bursar.core.explain.queue_listing import list_queue
from bursar.core.state.backlog import Backlog
from bursar.core.state.fleet_state import FleetState
from bursar.model.explain.explanation import Basis, Explanation
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec
from bursar.model.reason import Reason
from bursar.model.units import HOUR_MS, SECOND_MS, write_duration, write_usd
from bursar.ports import StoreReader

KNOWN_MODELS = frozenset(model.name for model in GPU_MODELS)
PAGE = 100


# -- the queue ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedQueueEntry:
    """One waiting job, as it is remembered for everybody who asks in the same moment."""

    id: str
    name: str
    queue: str
    state: str
    priority: int
    submitted_at_ms: int
    gpus: int
    micro_usd_per_hour: int | None
    position: int
    is_exact: bool
    reasons: tuple[Reason, ...]
    queues: dict[str, str]
    """The queue of every job that a reason names."""


def queue_entries(state: FleetState, now_ms: int) -> list[CachedQueueEntry]:
    """Everybody who waits, asked once for all readers."""
    queues = {job_id: record.spec.queue for job_id, record in state.jobs.items()}
    prices = _Prices()
    return [
        CachedQueueEntry(
            id=turn.record.id,
            name=turn.record.spec.name,
            queue=turn.record.spec.queue,
            state=turn.record.state.value,
            priority=turn.record.priority,
            submitted_at_ms=turn.record.submitted_at_ms,
            gpus=views.gpus_wanted(turn.record.spec),
            micro_usd_per_hour=prices.of(turn.record.backlog),
            position=turn.number,
            is_exact=turn.is_exact,
            reasons=turn.reasons,
            queues=queues,
        )
        for turn in list_queue(state, now_ms)
    ]


class _Prices:
    """The cheapest price of each backlog, worked out once."""

    def __init__(self) -> None:
        self._by_backlog: dict[int, int | None] = {}

    def of(self, backlog: Backlog) -> int | None:
        if id(backlog) not in self._by_backlog:
            self._by_backlog[id(backlog)] = cheapest_micro_usd_per_hour(backlog.plan)
        return self._by_backlog[id(backlog)]


async def list_waiting(call: RequestContext) -> Response:
    """Waiting jobs in the order in which they come."""
    desk = call.desk
    entries: list[CachedQueueEntry] = await desk.remembered(
        "queue", lambda: desk.ask(queue_entries)
    ).get()
    seen = await call.seen()
    limit = call.query.get("limit", PAGE)
    after = read_cursor(call.query["cursor"], int)[0] if "cursor" in call.query else 0
    visible = [one for one in entries if seen is None or one.queue in seen]
    rest = [one for one in visible if one.position > after]
    owners = await desk.read(_owners, desk.plane.reader, [one.id for one in rest[:limit]])
    page: wire.WaitingPage = {
        "items": [_waiting(one, owners.get(one.id, ""), seen) for one in rest[:limit]],
        "next_cursor": write_cursor(rest[limit - 1].position) if len(rest) > limit else None,
        "waiting": len(visible),
    }
    return answer(page)


def _owners(reader: StoreReader, job_ids: list[str]) -> dict[str, str]:
    rows = (reader.job(job_id) for job_id in job_ids)
    return {row.id: row.owner for row in rows if row is not None}


def _waiting(place: CachedQueueEntry, owner: str, seen: frozenset[str] | None) -> wire.Waiting:
    def sees(job_id: str) -> bool:
        return seen is None or place.queues.get(job_id, "") in seen

    shown = [views.hide_spending(one, seen) for one in place.reasons]
    reasons = [views.reason(views.redacted_reason(one, sees)) for one in shown]
    return {
        "id": place.id,
        "name": place.name,
        "queue": place.queue,
        "owner": owner,
        "state": cast(wire.State, place.state),
        "priority": place.priority,
        "submitted_at_ms": place.submitted_at_ms,
        "position": place.position,
        "is_exact": place.is_exact,
        "gpus": place.gpus,
        "micro_usd_per_hour": place.micro_usd_per_hour,
        "reasons": reasons,
        "reason": reasons[0]["text"] if reasons else "starts in the next cycle",
    }


# -- the plan ----------------------------------------------------------------------------------------


async def plan(call: RequestContext) -> Response:
    """Feasibility, place, start and cost of a job, without submitting it."""
    document = await read_document(call, *await call.body())
    await keep_to_tenant(call, [document.spec])
    seen = await call.seen()

    def question(state: FleetState, now_ms: int) -> tuple[Preview, int]:
        arrival = AdmissionRequest(
            spec=document.spec,
            job_id=THIS_JOB,
            at_ms=now_ms,
            state=state,
            known_models=KNOWN_MODELS,
        )
        found = preview(arrival)
        if found.explanation is None:
            return found, now_ms
        hidden = views.redacted(found.explanation, seen, views.who_sees(state, seen, THIS_JOB))
        return Preview(problems=(), explanation=hidden), now_ms

    found, now_ms = await call.desk.ask(question)
    if not found.problems:
        problem = await budget_problem(call, document, KNOWN_MODELS)
        found = found if problem is None else Preview(problems=(problem,), explanation=None)
    planned = _plan(found, document.spec, now_ms)
    if not found.problems:
        told = await plan_estimates(call, document.spec)
        planned["estimates"], planned["estimates_note"] = told
    return answer(planned)


def _plan(found: Preview, spec: JobSpec, now_ms: int) -> wire.Plan:
    told = found.explanation
    place = told.starts_on if told is not None else None
    cost = _cost(told, spec)
    is_never = told is not None and told.forecast is not None and told.forecast.basis is Basis.NEVER
    return {
        "feasible": not found.problems and not is_never,
        "problems": [
            {"code": one.code, "field": one.field, "text": one.text, "fix": one.fix}
            for one in found.problems
        ],
        "starts": _starts(told, now_ms) if told is not None else None,
        "placement": _placement(place) if place is not None else None,
        "reasons": [views.reason(one) for one in told.reasons] if told is not None else [],
        "alternatives": (
            [views.alternative(one) for one in told.alternatives] if told is not None else []
        ),
        "cost": cost,
        "warnings": _warnings(cost),
        "estimates": [],
        "estimates_note": "",
        "text": list(told.lines()) if told is not None else [],
    }


def _starts(told: Explanation, now_ms: int) -> wire.PlannedStartView | None:
    found = told.forecast
    if found is None:
        return None
    now = told.starts_on is not None
    return {
        "now": now,
        "low_ms": now_ms if found.p50_start_ms is not None else None,
        "likely_ms": found.p50_start_ms,
        "high_ms": found.p90_start_ms,
        "basis": found.basis.value,
        "text": found.line(now_ms),
    }


def _placement(place: Placement) -> wire.PlannedPlace:
    return {
        "pool": views.pools_of(place),
        "flavor": "+".join(part.flavor for part in place.parts),
        "nodes": views.nodes_of(place),
        "tasks": [
            {"group": one.group, "node": one.node, "count": one.count, "gpus": list(one.gpus)}
            for one in place.all_tasks
        ],
    }


def _cost(told: Explanation | None, spec: JobSpec) -> wire.CostView:
    """What it would cost where it starts, or where it could start for least; a ceiling is the most."""
    hourly = _hourly(told)
    members, ceiling = spec.array_size, spec.max_cost_micro_usd
    expected, most = spec.expected_run_ms, spec.max_run_ms
    found: wire.CostView = {
        "micro_usd_per_hour": None,
        "expected_micro_usd": None,
        "max_micro_usd": None,
        "ceiling_micro_usd": None if ceiling is None else ceiling * members,
    }
    if hourly is None:
        return found
    found["micro_usd_per_hour"] = hourly * members
    if expected is not None:
        found["expected_micro_usd"] = hourly * members * expected // HOUR_MS
    limits = [] if most is None else [hourly * members * most // HOUR_MS]
    if found["ceiling_micro_usd"] is not None:
        limits.append(found["ceiling_micro_usd"])
    if limits:
        found["max_micro_usd"] = min(limits)
    return found


def _hourly(told: Explanation | None) -> int | None:
    if told is None:
        return None
    if told.starts_on is not None:
        return told.starts_on.all_micro_usd_per_hour
    return told.cheapest_micro_usd_per_hour


def _warnings(cost: wire.CostView) -> list[str]:
    """What its user should know before he submits it, though nothing forbids it."""
    hourly, ceiling = cost["micro_usd_per_hour"], cost["ceiling_micro_usd"]
    if not hourly or ceiling is None:
        return []
    lasts = write_duration(ceiling * HOUR_MS // hourly // SECOND_MS * SECOND_MS)
    told = (
        f"max_cost of {write_usd(ceiling)} pays for {lasts} at {write_usd(hourly)} an hour, the time to "
        "stop included; then the job is over"
    )
    expected = cost["expected_micro_usd"]
    if expected is not None and expected > ceiling:
        return [f"{told}, and it is expected to cost {write_usd(expected)}. Raise max_cost."]
    if expected is None and cost["max_micro_usd"] == ceiling:
        return [f"{told}, if it runs so long."]
    return []

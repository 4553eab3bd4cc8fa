"""Lists waiting jobs in order, and plans jobs that are not submitted yet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from bursar.api import wire
from bursar.api.endpoints.jobs.submit import JOB_BODY, read_document, require_visible_queues
from bursar.api.endpoints.money.budgets import budget_problem
from bursar.api.endpoints.money.estimates import plan_estimates
from bursar.api.endpoints.pagination import CURSOR, LIMIT, PAGE_SIZE, read_cursor, write_cursor
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Route
from bursar.api.wire import views
from bursar.catalog.gpu_models import GPU_MODELS
from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.eligible_pools import cheapest_micro_usd_per_hour
from bursar.core.explain.preview import THIS_JOB, Preview, preview
from bursar.core.explain.queue_listing import QueueEntry, list_queue
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import Backlog
from bursar.model.explain.explanation import Basis, Explanation
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec
from bursar.model.reason import Reason
from bursar.model.tenants.identity import Permission
from bursar.model.units import HOUR_MS, SECOND_MS, write_duration, write_usd
from bursar.ports import StoreReader

KNOWN_MODELS = frozenset(model.name for model in GPU_MODELS)


# -- the queue ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CachedQueueEntry:
    """One waiting job, cached for all callers: its owner and reasons are added for each."""

    job: wire.Waiting
    reasons: tuple[Reason, ...]
    queues: dict[str, str]
    """The queue of every job that a reason names."""


def queue_entries(state: FleetState, now_ms: int) -> list[CachedQueueEntry]:
    """All waiting jobs, in queue order."""
    queues = {job_id: record.spec.queue for job_id, record in state.jobs.items()}

    @cache
    def price(backlog: Backlog) -> int | None:
        return cheapest_micro_usd_per_hour(backlog.plan)

    def entry(one: QueueEntry) -> CachedQueueEntry:
        job: wire.Waiting = {
            "id": one.record.id,
            "name": one.record.spec.name,
            "queue": one.record.spec.queue,
            "owner": "",
            "state": one.record.state.value,
            "priority": one.record.priority,
            "submitted_at_ms": one.record.submitted_at_ms,
            "position": one.number,
            "is_exact": one.is_exact,
            "gpus": views.gpus_requested(one.record.spec),
            "micro_usd_per_hour": price(one.record.backlog),
            "reasons": [],
            "reason": "",
        }
        return CachedQueueEntry(job, one.reasons, queues)

    return [entry(one) for one in list_queue(state, now_ms)]


@Route("GET", "/v1/queue", Permission.READ_JOBS, "A page of waiting jobs.", query=(LIMIT, CURSOR))
async def list_waiting(request: RequestContext) -> wire.WaitingPage:
    """Waiting jobs in queue order, with the position and the reasons of each."""
    context = request.context
    entries: list[CachedQueueEntry] = await context.cached(
        "queue", lambda: context.query_state(queue_entries)
    ).get()
    visible = await request.visible_queues()
    limit = request.query.get("limit", PAGE_SIZE)
    after = read_cursor(request.query["cursor"], int)[0] if "cursor" in request.query else 0
    shown = [one for one in entries if visible is None or one.job["queue"] in visible]
    rest = [one for one in shown if one.job["position"] > after]
    owners = await request.read_store(_owners, [one.job["id"] for one in rest[:limit]])
    more = len(rest) > limit
    return {
        "items": [_waiting(one, owners.get(one.job["id"], ""), visible) for one in rest[:limit]],
        "next_cursor": write_cursor(rest[limit - 1].job["position"]) if more else None,
        "waiting": len(shown),
    }


def _owners(reader: StoreReader, job_ids: list[str]) -> dict[str, str]:
    rows = (reader.job(job_id) for job_id in job_ids)
    return {row.id: row.owner for row in rows if row is not None}


def _waiting(entry: CachedQueueEntry, owner: str, visible: frozenset[str] | None) -> wire.Waiting:
    def can_see(job_id: str) -> bool:
        return visible is None or entry.queues.get(job_id, "") in visible

    redacted = [views.hide_spending(one, visible) for one in entry.reasons]
    reasons = [views.reason(views.redact_reason(one, can_see)) for one in redacted]
    reason = reasons[0]["text"] if reasons else "starts in the next cycle"
    return {**entry.job, "owner": owner, "reasons": reasons, "reason": reason}


# -- the plan ----------------------------------------------------------------------------------------


@Route("POST", "/v1/plan", Permission.WRITE_JOBS, "The plan.", body=JOB_BODY)
async def plan(request: RequestContext) -> wire.Plan:
    """Feasibility, placement, start and cost of a job. Nothing is submitted."""
    document = await read_document(request, *await request.body())
    await require_visible_queues(request, [document.spec])
    visible = await request.visible_queues()

    def query(state: FleetState, now_ms: int) -> tuple[Preview, int]:
        admission = AdmissionRequest(
            spec=document.spec,
            job_id=THIS_JOB,
            at_ms=now_ms,
            state=state,
            known_models=KNOWN_MODELS,
        )
        result = preview(admission)
        if result.explanation is None:
            return result, now_ms
        can_see = views.job_visibility(state, visible, THIS_JOB)
        redacted = views.redact(result.explanation, visible, can_see)
        return Preview(problems=(), explanation=redacted), now_ms

    result, now_ms = await request.context.query_state(query)
    if not result.problems:
        problem = await budget_problem(request, document, KNOWN_MODELS)
        if problem is not None:
            result = Preview(problems=(problem,), explanation=None)
    planned = _plan(result, document.spec, now_ms)
    if not result.problems:
        estimates = await plan_estimates(request, document.spec)
        planned["estimates"], planned["estimates_note"] = estimates
    return planned


def _plan(result: Preview, spec: JobSpec, now_ms: int) -> wire.Plan:
    one = result.explanation
    placement = one.starts_on if one is not None else None
    cost = _cost(one, spec)
    is_never = one is not None and one.forecast is not None and one.forecast.basis is Basis.NEVER
    return {
        "feasible": not result.problems and not is_never,
        "problems": [views.to_wire(problem, wire.PlanProblem) for problem in result.problems],
        "starts": _starts(one, now_ms) if one is not None else None,
        "placement": _placement(placement) if placement is not None else None,
        "reasons": [views.reason(value) for value in one.reasons] if one is not None else [],
        "alternatives": (
            [views.alternative(value) for value in one.alternatives] if one is not None else []
        ),
        "cost": cost,
        "warnings": _warnings(cost),
        "estimates": [],
        "estimates_note": "",
        "text": list(one.lines()) if one is not None else [],
    }


def _starts(one: Explanation, now_ms: int) -> wire.PlannedStartView | None:
    forecast = one.forecast
    if forecast is None:
        return None
    return {
        "now": one.starts_on is not None,
        "low_ms": now_ms if forecast.p50_start_ms is not None else None,
        "likely_ms": forecast.p50_start_ms,
        "high_ms": forecast.p90_start_ms,
        "basis": forecast.basis.value,
        "text": forecast.line(now_ms),
    }


def _placement(placement: Placement) -> wire.PlannedPlace:
    return {
        "pool": views.pools_of(placement),
        "flavor": views.flavors_of(placement),
        "nodes": views.nodes_of(placement),
        "tasks": [views.to_wire(one, wire.PlannedTask) for one in placement.all_tasks],
    }


def _cost(explanation: Explanation | None, spec: JobSpec) -> wire.CostView:
    """The cost of all members where the job starts, or could start for least."""
    hourly = views.price_per_hour(explanation) if explanation is not None else None
    members, ceiling = spec.array_size, spec.max_cost_micro_usd
    expected_ms, max_ms = spec.expected_run_ms, spec.max_run_ms
    cost: wire.CostView = {
        "micro_usd_per_hour": None,
        "expected_micro_usd": None,
        "max_micro_usd": None,
        "ceiling_micro_usd": None if ceiling is None else ceiling * members,
    }
    if hourly is None:
        return cost
    cost["micro_usd_per_hour"] = hourly * members
    if expected_ms is not None:
        cost["expected_micro_usd"] = hourly * members * expected_ms // HOUR_MS
    limits = [] if max_ms is None else [hourly * members * max_ms // HOUR_MS]
    if cost["ceiling_micro_usd"] is not None:
        limits.append(cost["ceiling_micro_usd"])
    if limits:
        cost["max_micro_usd"] = min(limits)
    return cost


def _warnings(cost: wire.CostView) -> list[str]:
    """What the user should know before submitting, though nothing forbids the job."""
    hourly, ceiling = cost["micro_usd_per_hour"], cost["ceiling_micro_usd"]
    if not hourly or ceiling is None:
        return []
    duration = write_duration(ceiling * HOUR_MS // hourly // SECOND_MS * SECOND_MS)
    limit = (
        f"max_cost of {write_usd(ceiling)} pays for {duration} at {write_usd(hourly)} an hour, "
        "including the time to stop"
    )
    expected = cost["expected_micro_usd"]
    if expected is not None and expected > ceiling:
        return [f"{limit}. The job is expected to cost {write_usd(expected)}: raise max_cost."]
    if expected is None and cost["max_micro_usd"] == ceiling:
        return [f"{limit}; then the job is stopped."]
    return []

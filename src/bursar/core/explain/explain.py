"""Explains why a job does not run, when it will start, and what would start it now.

The reasons are the holds of a ``decide`` run at this time. The state is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from bursar.core.admission.eligible_pools import cheapest_micro_usd_per_hour
from bursar.core.cycle import decide
from bursar.core.explain.alternatives import find_alternatives, is_queued
from bursar.core.explain.fair_share_view import fair_share_path
from bursar.core.explain.forecast import forecast
from bursar.core.explain.holders import find_holders
from bursar.core.explain.queue_position import jobs_ahead, position_of
from bursar.core.explain.spot_view import spot_view
from bursar.core.reservation.expected_ends import EndOdds, expected_end_ms
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.core.state.notices import notice_on
from bursar.model.decision import ClaimPlacement, Decision, Hold, StartJob
from bursar.model.explain.explanation import Basis, Explanation, Forecast
from bursar.model.jobs.job import GpuRequest, JobKind, JobSpec, MigSlice, MpsShare, WholeGpus
from bursar.model.lifecycle import LIVE
from bursar.model.reason import Reason, WaitsForSpot
from bursar.model.units import MILLI, write_gpus


def explain(state: FleetState, job_id: str, now_ms: int) -> Explanation:
    """The full explanation of one job that is in the state or has ended."""
    record = state.jobs.get(job_id)
    if record is None:
        return Explanation(job_id=job_id, state=state.finished[job_id], now_ms=now_ms)
    if record.state in LIVE:
        return Explanation(
            job_id=job_id,
            state=record.state,
            now_ms=now_ms,
            queue=record.spec.queue,
            request=describe_request(record.spec),
            runs_on=record.placement,
            expected_end_ms=expected_end_ms(record, EndOdds.EVEN, now_ms),
            spot=spot_view(state, record, now_ms),
            notice=notice_on(state, record),
        )
    return _explain_waiting(state, record, now_ms)


def _explain_waiting(state: FleetState, record: JobRecord, now_ms: int) -> Explanation:
    answers = CycleAnswers(decide(state, now_ms))
    order, reasons = answers.orders.get(record.id), answers.reasons_for(record)
    held = is_queued(record) and order is None
    position = None
    if is_queued(record):
        position = position_of(state, record, jobs_ahead(state, record, now_ms), now_ms)
    alternatives, considered = (
        find_alternatives(state, record, reasons, now_ms) if held else ((), 0)
    )
    return Explanation(
        job_id=record.id,
        state=record.state,
        now_ms=now_ms,
        queue=record.spec.queue,
        request=describe_request(record.spec),
        starts_on=order.placement if isinstance(order, StartJob) else None,
        victims_stopping=order.victims if isinstance(order, ClaimPlacement) else (),
        reasons=reasons,
        holdings=find_holders(state, reasons, now_ms),
        position=position,
        fair_shares=fair_share_path(state, record.spec.queue, now_ms) if held else (),
        forecast=_deferred_start(reasons, now_ms) or forecast(state, record, now_ms, held=held),
        alternatives=alternatives,
        changes_considered=considered,
        spot=spot_view(state, record, now_ms),
        cheapest_micro_usd_per_hour=cheapest_micro_usd_per_hour(record.backlog.plan),
    )


def _deferred_start(reasons: tuple[Reason, ...], now_ms: int) -> Forecast | None:
    """The latest start of a job that waits for spot because its deadline allows it."""
    for reason in reasons:
        if isinstance(reason, WaitsForSpot):
            latest_ms = now_ms + reason.wait_ms
            return Forecast(
                p50_start_ms=latest_ms, p90_start_ms=latest_ms, basis=Basis.WAITS_FOR_SPOT
            )
    return None


class CycleAnswers:
    """What a cycle decided about waiting jobs: an order for a job, or the reasons of a hold."""

    def __init__(self, decisions: Iterable[Decision]) -> None:
        self.orders: dict[str, StartJob | ClaimPlacement] = {}
        self._of_job: dict[str, tuple[Reason, ...]] = {}
        self._of_kind: dict[JobKind, tuple[Reason, ...]] = {}
        for decision in decisions:
            if isinstance(decision, StartJob | ClaimPlacement):
                self.orders[decision.job_id] = decision
            elif isinstance(decision, Hold) and decision.jobs:
                self._of_job |= dict.fromkeys(decision.jobs, decision.reasons)
            elif isinstance(decision, Hold):
                self._of_kind[decision.kind] = decision.reasons

    def reasons_for(self, record: JobRecord) -> tuple[Reason, ...]:
        """Why the job is held: its own hold, else its kind's; empty if it has an order."""
        if record.id in self.orders:
            return ()
        own = self._of_job.get(record.id)
        return self._of_kind.get(record.backlog.kind, ()) if own is None else own


def describe_request(spec: JobSpec) -> str:
    """A job's request as text: ``4 tasks with 8 GPUs each``."""
    groups = []
    for group in spec.groups:
        each = _write_request(group.gpu)
        if group.count == 1:
            groups.append(each or f"1 task of {group.name} without GPUs")
        else:
            groups.append(f"{group.count:,} tasks with {each or 'no GPUs'} each")
    return " and ".join(groups)


def _write_request(request: GpuRequest | None) -> str:
    match request:
        case None:
            return ""
        case WholeGpus(count=count):
            each = write_gpus(count * MILLI)
        case MigSlice(profile=profile):
            each = f"a {profile} slice"
        case MpsShare(percent=percent):
            each = f"{percent} % of a GPU"
    return f"{each} of {' or '.join(request.models)}" if request.models else each

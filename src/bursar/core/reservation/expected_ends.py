"""When running jobs should be done, with even odds and with nine in ten.

Even odds rest on what the user expects of the job, nine in ten on the limit it may not pass. A job
without a limit is given half as much again; one that nothing is known of runs as long as the policy
says unknown jobs do.
"""

from __future__ import annotations

from enum import StrEnum

from bursar.core.reservation.plan_start import OVERDUE_MS
from bursar.core.state.job_record import JobRecord
from bursar.model.jobs.job import JobState
from bursar.model.units import MINUTE_MS, SECOND_MS

STOP_MS = {"p50": OVERDUE_MS, "p90": 5 * MINUTE_MS}
"""How long a job that was told to stop still needs. Its grace period is the engine's affair."""

STOPPING_STATES = frozenset({JobState.STOPPING, JobState.CANCELLING, JobState.EXPIRING})


class EndOdds(StrEnum):
    """How sure a forecast is to be."""

    EVEN = "p50"
    NINE_IN_TEN = "p90"


def expected_run_ms(record: JobRecord, odds: EndOdds) -> int:
    """How long a job runs from its start."""
    spec = record.spec
    limit_ms = spec.max_run_ms
    likely_ms = spec.expected_run_ms or limit_ms or record.run_ms
    if limit_ms is not None:
        return min(likely_ms, limit_ms) if odds is EndOdds.EVEN else limit_ms
    return likely_ms if odds is EndOdds.EVEN else likely_ms + likely_ms // 2


def remaining_run_ms(record: JobRecord, odds: EndOdds) -> int:
    """The same for a job that may have saved a part of its work in an attempt before."""
    run_ms = expected_run_ms(record, odds)
    if not record.done_ms:
        return run_ms
    return max(SECOND_MS, run_ms - record.done_ms) + record.spec.checkpoint.restart_ms


def expected_end_ms(record: JobRecord, odds: EndOdds, now_ms: int) -> int:
    """When a job that holds room should be gone; always later than now.

    A job past its expected end could end any moment, so even odds say soon. For nine in ten, it runs
    to its limit or, without one, half as long again as it already has.
    """
    if record.stop_requested or record.state in STOPPING_STATES:
        return now_ms + STOP_MS[odds]
    since_ms = record.assigned_at_ms if record.started_at_ms is None else record.started_at_ms
    end_ms = since_ms + remaining_run_ms(record, odds)
    if end_ms > now_ms:
        return end_ms
    late_ms = 0
    if odds is EndOdds.NINE_IN_TEN and record.spec.max_run_ms is None:
        late_ms = now_ms + (now_ms - since_ms) // 2
    return max(late_ms, now_ms + STOP_MS[odds])

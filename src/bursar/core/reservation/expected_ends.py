"""Expected ends of running jobs, at 50 % and 90 % probability.

The 50 % estimate uses the run time that the user expects, the 90 % estimate the job's run time limit. Without
a limit it is half as long again. A job with neither runs as long as the policy assumes for unknown jobs.
"""

from __future__ import annotations

from enum import StrEnum

from bursar.core.reservation.plan_start import OVERDUE_MS
from bursar.core.state.job_record import JobRecord
from bursar.model.jobs.job import JobState
from bursar.model.units import MINUTE_MS, SECOND_MS

STOP_MS = {"p50": OVERDUE_MS, "p90": 5 * MINUTE_MS}
"""How long a stopping job still runs; the engine enforces its grace period."""

STOPPING_STATES = frozenset({JobState.STOPPING, JobState.CANCELLING, JobState.EXPIRING})


class EndOdds(StrEnum):
    """The probability of an estimate."""

    EVEN = "p50"
    NINE_IN_TEN = "p90"


def expected_run_ms(record: JobRecord, odds: EndOdds) -> int:
    """The expected run time of a job from its start."""
    spec = record.spec
    limit_ms = spec.max_run_ms
    likely_ms = spec.expected_run_ms or limit_ms or record.run_ms
    if limit_ms is not None:
        return min(likely_ms, limit_ms) if odds is EndOdds.EVEN else limit_ms
    return likely_ms if odds is EndOdds.EVEN else likely_ms + likely_ms // 2


def remaining_run_ms(record: JobRecord, odds: EndOdds) -> int:
    """The expected run time that remains after the work saved by earlier attempts."""
    run_ms = expected_run_ms(record, odds)
    if not record.done_ms:
        return run_ms
    return max(SECOND_MS, run_ms - record.done_ms) + record.spec.checkpoint.restart_ms


def expected_end_ms(record: JobRecord, odds: EndOdds, now_ms: int) -> int:
    """The expected end of a live attempt; always later than now.

    Past its expected end, a job is expected to end soon at 50 %. At 90 % it runs to its limit or, without
    one, half as long again as it has run.
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

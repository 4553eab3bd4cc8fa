"""Interruption reports from a job's events: causes, cost and advice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.core.admission.eligible_pools import EligiblePool
from bursar.core.explain.interruption_report import interruption_report
from bursar.model import event as ev
from bursar.model.explain.interruption_report import Cause
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import JobState
from bursar.model.units import HOUR_MS, MINUTE_MS, SECOND_MS

USD = 1_000_000
PLACE = Placement(
    pool="spot",
    flavor="a100-80gb/spot",
    tasks=(Task(group="main", node="n1", count=1, gpus=(0,), cpu_milli=0, memory_mib=0),),
    micro_usd_per_hour=8 * USD,
)


def started(attempt: int, at_ms: int) -> list[ev.LoggedEvent]:
    return [
        ev.AttemptAssigned(at_ms=at_ms, job_id="j", attempt=attempt, placement=PLACE),
        ev.AttemptStarted(at_ms=at_ms, job_id="j", attempt=attempt),
    ]


def saved(attempt: int, *at_ms: int) -> list[ev.LoggedEvent]:
    return [
        ev.CheckpointSaved(at_ms=one, job_id="j", attempt=attempt, save_ms=10 * SECOND_MS)
        for one in at_ms
    ]


def lost(at_ms: int) -> list[ev.LoggedEvent]:
    return [ev.NodeLost(at_ms=at_ms, node="n1")]


def test_a_job_without_interruptions_has_an_empty_report() -> None:
    events = [*started(1, 0), ev.AttemptSucceeded(at_ms=HOUR_MS, job_id="j", attempt=1)]
    report = interruption_report("j", events, ())
    assert (report.interruptions, report.advice) == ((), ())
    assert list(report.lines()) == ["j was never interrupted."]


UNINTERRUPTED = {
    "waits": (
        JobState.QUEUED,
        0,
        "j has not run yet, so nothing has interrupted it; run 'bursar why j'",
    ),
    "was cancelled before it ran": (JobState.CANCELLED, 0, "it was cancelled without having run."),
    "runs": (
        JobState.RUNNING,
        1,
        "it is running, in attempt 1.\nit has saved 2 times: only work since",
    ),
    "failed": (JobState.FAILED, 2, "it failed in attempt 2; run 'bursar status j' for details."),
    "succeeded": (JobState.SUCCEEDED, 1, "j was never interrupted: it succeeded in attempt 1;"),
    "was cancelled": (
        JobState.CANCELLED,
        1,
        "j was never interrupted: it was cancelled in attempt 1;",
    ),
}


@pytest.mark.parametrize("name", UNINTERRUPTED)
def test_the_report_of_an_uninterrupted_job_gives_its_state(name: str) -> None:
    state, attempts, text = UNINTERRUPTED[name]
    report = interruption_report("j", [*started(1, 0), *saved(1, MINUTE_MS, HOUR_MS)], ())
    assert text in "\n".join(replace(report, state=state, attempts=attempts).lines())


def test_a_job_that_saved_nothing_is_warned_about_its_loss() -> None:
    report = replace(
        interruption_report("j", started(1, 0), ()), state=JobState.RUNNING, attempts=1
    )
    assert "an interruption would lose all its work" in list(report.lines())[-1]


def test_a_job_that_saves_too_rarely_is_advised_to_save_more_often() -> None:
    """Attempts of four hours with one save after two: half of each attempt is lost."""
    events = []
    for number in range(3):
        begins = number * 5 * HOUR_MS
        events += started(number + 1, begins)
        events += saved(number + 1, begins + 2 * HOUR_MS)
        events += lost(begins + 4 * HOUR_MS)
    report = interruption_report("j", events, ())
    assert report.count(Cause.CAPACITY) == 3
    assert (report.mean_run_ms, report.saves_every_ms, report.save_ms) == (
        4 * HOUR_MS,
        2 * HOUR_MS,
        10_000,
    )
    assert (report.lost_ms, report.lost_micro_usd) == (6 * HOUR_MS, 48 * USD)
    assert report.waited_ms == 2 * HOUR_MS
    assert report.advised_every_ms is not None
    assert 8 * MINUTE_MS < report.advised_every_ms < 10 * MINUTE_MS
    (advice,) = report.advice
    assert "instead of every 2 h" in advice and "of the $48.00" in advice


def test_a_job_that_never_saved_is_advised_to_save_or_to_use_another_pool() -> None:
    events = [*started(1, 0), *lost(HOUR_MS), *started(2, 2 * HOUR_MS)]
    on_demand = EligiblePool("bought", Market.ON_DEMAND, "", micro_usd_per_hour=20 * USD)
    report = interruption_report("j", events, (on_demand,))
    assert report.lost_micro_usd == 8 * USD
    text = "\n".join(report.lines())
    assert "it never saved" in text
    assert "save every" in text and "instead of never" in text
    assert "run it on bought (on-demand)" in text and "at $20.00 an hour" in text


def test_a_preemption_by_another_team_counts_as_quota() -> None:
    stops = ev.AttemptStopping(
        at_ms=HOUR_MS, job_id="j", attempt=1, on_behalf_of="k", why="reclaim", lost_micro_usd=1
    )
    ends = ev.AttemptPreempted(at_ms=HOUR_MS + 5, job_id="j", attempt=1)
    report = interruption_report("j", [*started(1, 0), stops, ends], ())
    assert [one.cause for one in report.interruptions] == [Cause.QUOTA]
    assert report.advised_every_ms is None, "saving more often does not help against quota"
    assert "1 of 1 times" in report.advice[0]


def test_notices_and_requeues_count_as_interruptions_and_cancellations_do_not() -> None:
    stopping = ev.AttemptStopping(at_ms=5, job_id="j", attempt=1, why="spot notice")
    notice = ev.AttemptPreempted(at_ms=9, job_id="j", attempt=1, cause=ev.PreemptionCause.NOTICE)
    own = ev.AttemptPreempted(at_ms=30, job_id="j", attempt=2, cause=ev.PreemptionCause.UNPROMPTED)
    cancelled = ev.AttemptStopping(at_ms=50, job_id="j", attempt=3)
    gone = ev.AttemptPreempted(at_ms=60, job_id="j", attempt=3)
    events = [
        *started(1, 0),
        stopping,
        notice,
        *started(2, 20),
        own,
        *started(3, 40),
        cancelled,
        gone,
    ]
    report = interruption_report("j", events, ())
    assert [one.cause for one in report.interruptions] == [Cause.CAPACITY, Cause.ITSELF]


def test_slow_recovery_is_measured_and_advised_against() -> None:
    back = ev.AttemptResumed(at_ms=2 * HOUR_MS + 40 * MINUTE_MS, job_id="j", attempt=2, step=7)
    events = [*started(1, 0), *lost(HOUR_MS), *started(2, 2 * HOUR_MS), back]
    owned = EligiblePool("ours", Market.OWNED, "", micro_usd_per_hour=9 * USD)
    report = interruption_report("j", events, (owned,))
    assert report.mean_recovery_ms == 40 * MINUTE_MS
    assert any("40 min of the 1 h between interruptions" in one for one in report.advice)

"""Why a job was interrupted, what that cost, and what would help: from its log alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.core.explain.interruption_report import PoolPrice, interruption_report
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


def begun(attempt: int, at_ms: int) -> list[ev.LoggedEvent]:
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


def test_a_job_that_nobody_interrupted() -> None:
    events = [*begun(1, 0), ev.AttemptSucceeded(at_ms=HOUR_MS, job_id="j", attempt=1)]
    story = interruption_report("j", events, ())
    assert (story.interruptions, story.advice) == ((), ())
    assert list(story.lines()) == ["j was never interrupted."]


UNDISTURBED = {
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


@pytest.mark.parametrize("name", UNDISTURBED)
def test_who_was_never_interrupted_is_told_where_he_stands(name: str) -> None:
    state, attempts, said = UNDISTURBED[name]
    story = interruption_report("j", [*begun(1, 0), *saved(1, MINUTE_MS, HOUR_MS)], ())
    assert said in "\n".join(replace(story, state=state, attempts=attempts).lines())


def test_who_has_saved_nothing_is_told_what_an_interruption_would_cost() -> None:
    story = replace(interruption_report("j", begun(1, 0), ()), state=JobState.RUNNING, attempts=1)
    assert "an interruption would lose all its work" in list(story.lines())[-1]


def test_a_job_that_saves_too_seldom_for_its_pool() -> None:
    """Four hours each time, a save after two: half of each attempt is lost. Daly says about 17 minutes."""
    events = []
    for number in range(3):
        begins = number * 5 * HOUR_MS
        events += begun(number + 1, begins)
        events += saved(number + 1, begins + 2 * HOUR_MS)
        events += lost(begins + 4 * HOUR_MS)
    story = interruption_report("j", events, ())
    assert story.count(Cause.CAPACITY) == 3
    assert (story.mean_run_ms, story.saves_every_ms, story.save_ms) == (
        4 * HOUR_MS,
        2 * HOUR_MS,
        10_000,
    )
    assert (story.lost_ms, story.lost_micro_usd) == (6 * HOUR_MS, 48 * USD)
    assert story.waited_ms == 2 * HOUR_MS
    assert story.advised_every_ms is not None
    assert 8 * MINUTE_MS < story.advised_every_ms < 10 * MINUTE_MS
    (advice,) = story.advice
    assert "instead of every 2 h" in advice and "of the $48.00" in advice


def test_a_job_that_never_saved_and_would_be_cheaper_elsewhere() -> None:
    events = [*begun(1, 0), *lost(HOUR_MS), *begun(2, 2 * HOUR_MS)]
    steady = PoolPrice(pool="bought", market=Market.ON_DEMAND, micro_usd_per_hour=20 * USD)
    story = interruption_report("j", events, (steady,))
    assert story.lost_micro_usd == 8 * USD
    text = "\n".join(story.lines())
    assert "it never saved" in text
    assert "save every" in text and "at all" in text
    assert "run it on bought (on-demand)" in text and "there it is $20.00" in text


def test_whoever_gives_way_is_told_by_what_right() -> None:
    stops = ev.AttemptStopping(
        at_ms=HOUR_MS, job_id="j", attempt=1, on_behalf_of="k", why="reclaim", lost_micro_usd=1
    )
    ends = ev.AttemptPreempted(at_ms=HOUR_MS + 5, job_id="j", attempt=1)
    story = interruption_report("j", [*begun(1, 0), stops, ends], ())
    assert [one.cause for one in story.interruptions] == [Cause.QUOTA]
    assert story.advised_every_ms is None, "saving more often does not help against quota"
    assert "1 of 1 times" in story.advice[0]


def test_a_notice_an_end_of_its_own_and_a_cancelled_job() -> None:
    told = ev.AttemptStopping(at_ms=5, job_id="j", attempt=1, why="spot notice")
    notice = ev.AttemptPreempted(at_ms=9, job_id="j", attempt=1, cause=ev.PreemptionCause.NOTICE)
    own = ev.AttemptPreempted(at_ms=30, job_id="j", attempt=2, cause=ev.PreemptionCause.UNPROMPTED)
    cancelled = ev.AttemptStopping(at_ms=50, job_id="j", attempt=3)
    gone = ev.AttemptPreempted(at_ms=60, job_id="j", attempt=3)
    events = [*begun(1, 0), told, notice, *begun(2, 20), own, *begun(3, 40), cancelled, gone]
    story = interruption_report("j", events, ())
    assert [one.cause for one in story.interruptions] == [Cause.CAPACITY, Cause.ITSELF]


def test_how_long_it_takes_to_be_back() -> None:
    back = ev.AttemptResumed(at_ms=2 * HOUR_MS + 40 * MINUTE_MS, job_id="j", attempt=2, step=7)
    events = [*begun(1, 0), *lost(HOUR_MS), *begun(2, 2 * HOUR_MS), back]
    owned = PoolPrice(pool="ours", market=Market.OWNED, micro_usd_per_hour=9 * USD)
    story = interruption_report("j", events, (owned,))
    assert story.mean_recovery_ms == 40 * MINUTE_MS
    assert any("40 min of the 1 h between two interruptions" in one for one in story.advice)

"""The tables and the core see the same life of a job."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given

from bursar.codec import event_of, event_text, from_text, to_plain
from bursar.core.state.fleet_state import FleetState
from bursar.model import event as ev
from bursar.model import lifecycle
from bursar.model.errors import BrokenInvariant
from bursar.model.jobs.attempt import Exit, Placement
from bursar.model.jobs.job import OVER, JobState
from bursar.store.tables import projection
from bursar.store.tables.projection import Rows, fold
from tests.properties.plays import ANY_SCRIPT, Play, Script, fresh_state
from tests.store import facts

REACHED_BY: dict[JobState, tuple[ev.LoggedEvent, ...]] = {
    JobState.BLOCKED: (facts.submitted("j", depends_on=("other",), retries=1),),
    JobState.QUEUED: (facts.submitted("j", retries=1),),
}
REACHED_BY[JobState.STARTING] = (*REACHED_BY[JobState.QUEUED], facts.assigned("j"))
REACHED_BY[JobState.RUNNING] = (*REACHED_BY[JobState.STARTING], facts.started("j"))
REACHED_BY[JobState.STOPPING] = (
    *REACHED_BY[JobState.RUNNING],
    ev.AttemptStopping(at_ms=1, job_id="j", attempt=1),
)
REACHED_BY[JobState.EXPIRING] = (
    *REACHED_BY[JobState.RUNNING],
    ev.AttemptExpired(at_ms=1, job_id="j", attempt=1),
)
REACHED_BY[JobState.CANCELLING] = (*REACHED_BY[JobState.RUNNING], facts.cancelled("j"))

HAPPENS: tuple[ev.LoggedEvent, ...] = (
    facts.cancelled("j"),
    facts.started("j"),
    facts.saved("j"),
    ev.AttemptResumed(at_ms=1, job_id="j", attempt=1, step=3),
    ev.AttemptStopping(at_ms=1, job_id="j", attempt=1),
    ev.AttemptExpired(at_ms=1, job_id="j", attempt=1),
    facts.succeeded("j"),
    facts.failed("j"),
    facts.preempted("j"),
    ev.NodeLost(at_ms=1, node="n1"),
)


def folded(*events: ev.LoggedEvent) -> Rows:
    rows = Rows()
    for sequence, event in enumerate(events, 1):
        fold(rows, sequence, event)
    return rows


@pytest.mark.parametrize("state", sorted(lifecycle.LIVE))
@pytest.mark.parametrize("event", HAPPENS, ids=lambda event: type(event).__name__)
def test_a_live_job_moves_as_the_lifecycle_says(state: JobState, event: ev.LoggedEvent) -> None:
    def core_says(retries_left: int) -> JobState | None:
        try:
            return lifecycle.next_state(state, type(event), retries_left, "j")
        except BrokenInvariant:
            return None

    rows = folded(*REACHED_BY[state])
    assert rows.jobs["j"].state is state
    expected = core_says(retries_left=1)
    if expected is None:
        with pytest.raises(BrokenInvariant, match=r"<job j .* cannot happen while"):
            fold(rows, 9, event)
    else:
        fold(rows, 9, event)
        assert rows.jobs["j"].state is expected
        assert ("j" in rows.live) == (expected in lifecycle.LIVE)


def test_the_sets_of_states_are_the_cores() -> None:
    assert projection.LIVE == lifecycle.LIVE
    assert not OVER & {state for state, _ in lifecycle.NEXT}


@given(ANY_SCRIPT)
def test_the_tables_show_what_the_core_knows(script: Script) -> None:
    """After every event of a random play, replayed from the text that the log keeps of it."""
    log = Play(script.world).run(script).stage.log
    state, rows = fresh_state(script.world), Rows()
    for sequence, event in enumerate(log, 1):
        state.apply(event)
        fold(rows, sequence, event_of(event_text(event)))
        assert_alike(state, rows)


def assert_alike(state: FleetState, rows: Rows) -> None:
    assert {id_: one.state for id_, one in rows.jobs.items() if one.state in OVER} == (
        state.finished
    )
    for job_id, record in state.jobs.items():
        row = rows.jobs[job_id]
        assert (row.state, row.attempt, row.failures, row.preemptions) == (
            record.state,
            record.attempt,
            record.failures,
            record.preemptions,
        )
        assert rows.unmet.get(job_id, set()) == record.unmet
        if record.placement is not None:
            attempt = rows.attempts[job_id, row.attempt]
            assert from_text(Placement, attempt.placement) == record.placement
            assert attempt.started_at_ms == record.started_at_ms == row.started_at_ms
            assert attempt.outcome == ""


# -- texts -------------------------------------------------------------------------------------------


def test_a_submission_has_the_text_of_any_event() -> None:
    for event in (facts.submitted("j-1"), facts.submitted('"', depends_on=("a",), retries=2)):
        plain = {"type": "JobSubmitted", **to_plain(event)}
        assert event_text(event) == json.dumps(plain, separators=(",", ":"))
        assert event_of(event_text(event)) == event


def test_specs_that_look_alike_to_a_hash_are_kept_apart() -> None:
    one, other = facts.submitted("j", retries=1), facts.submitted("j", retries=2)
    assert event_of(event_text(one)) == one
    assert event_of(event_text(other)) == other


def test_how_an_attempt_ended_is_kept() -> None:
    how = Exit(code=None, signal=9, detail="killed")
    event = ev.AttemptFailed(at_ms=1, job_id="j", attempt=1, exit=how)
    row = folded(*REACHED_BY[JobState.RUNNING], event).attempts["j", 1]
    assert (row.exit_signal, row.exit_detail, row.outcome) == (9, "killed", "AttemptFailed")


def test_every_kind_of_event_is_known_to_the_fold() -> None:
    """The type check says so too; this fails where nobody runs it."""
    handled = {type(event) for event in (*HAPPENS, *REACHED_BY[JobState.STARTING])}
    quiet = {"PlacementClaimed", "ClaimReleased", "FleetDeclared", "NodeAdded", "NodeDrained"}
    quiet |= {"NodeRestored", "ForeignUsageSeen", "GpuPartitioned", "TenantChanged", "PriceChanged"}
    quiet |= {"BudgetLevelChanged", "SpotNotice", "BillReceived"}
    assert {kind.__name__ for kind in get_args(ev.LoggedEvent)} == (
        {kind.__name__ for kind in handled} | quiet
    )

"""The projected tables and the core agree on the state of every job."""

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
from tests.properties.random_steps import ANY_SCRIPT, Script, StepRunner, fresh_state
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

EVENTS: tuple[ev.LoggedEvent, ...] = (
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
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_live_job_follows_the_lifecycle(state: JobState, event: ev.LoggedEvent) -> None:
    def lifecycle_state(retries_left: int) -> JobState | None:
        try:
            return lifecycle.next_state(state, type(event), retries_left, "j")
        except BrokenInvariant:
            return None

    rows = folded(*REACHED_BY[state])
    assert rows.jobs["j"].state is state
    expected = lifecycle_state(retries_left=1)
    if expected is None:
        with pytest.raises(BrokenInvariant, match=r"<job j .* cannot happen while"):
            fold(rows, 9, event)
    else:
        fold(rows, 9, event)
        assert rows.jobs["j"].state is expected
        assert ("j" in rows.live) == (expected in lifecycle.LIVE)


def test_the_sets_of_states_equal_those_of_the_core() -> None:
    assert projection.LIVE == lifecycle.LIVE
    assert not OVER & {state for state, _ in lifecycle.NEXT}


@given(ANY_SCRIPT)
def test_the_tables_equal_the_state_of_the_core(script: Script) -> None:
    """Checked after every event of a random run, replayed from its JSON text."""
    log = StepRunner(script.world).run(script).harness.log
    state, rows = fresh_state(script.world), Rows()
    for sequence, event in enumerate(log, 1):
        state.apply(event)
        fold(rows, sequence, event_of(event_text(event)))
        assert_equal_state(state, rows)


def assert_equal_state(state: FleetState, rows: Rows) -> None:
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


def test_a_submission_is_encoded_like_other_events() -> None:
    for event in (facts.submitted("j-1"), facts.submitted('"', depends_on=("a",), retries=2)):
        plain = {"type": "JobSubmitted", **to_plain(event)}
        assert event_text(event) == json.dumps(plain, separators=(",", ":"))
        assert event_of(event_text(event)) == event


def test_similar_specs_are_decoded_separately() -> None:
    one, other = facts.submitted("j", retries=1), facts.submitted("j", retries=2)
    assert event_of(event_text(one)) == one
    assert event_of(event_text(other)) == other


def test_the_exit_of_an_attempt_is_stored() -> None:
    exit_status = Exit(code=None, signal=9, detail="killed")
    event = ev.AttemptFailed(at_ms=1, job_id="j", attempt=1, exit=exit_status)
    row = folded(*REACHED_BY[JobState.RUNNING], event).attempts["j", 1]
    assert (row.exit_signal, row.exit_detail, row.outcome) == (9, "killed", "AttemptFailed")


def test_the_fold_handles_every_event_type() -> None:
    """The type checker verifies this too; this test works without it."""
    handled = {type(event) for event in (*EVENTS, *REACHED_BY[JobState.STARTING])}
    ignored = {"PlacementClaimed", "ClaimReleased", "FleetDeclared", "NodeAdded", "NodeDrained"}
    ignored |= {
        "NodeRestored",
        "ForeignUsageSeen",
        "GpuPartitioned",
        "TenantChanged",
        "PriceChanged",
    }
    ignored |= {"BudgetLevelChanged", "SpotNotice", "BillReceived"}
    assert {kind.__name__ for kind in get_args(ev.LoggedEvent)} == (
        {kind.__name__ for kind in handled} | ignored
    )

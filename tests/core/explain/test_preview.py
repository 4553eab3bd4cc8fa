"""Asking before submitting, and the order of those who wait: both leave no trace."""

from __future__ import annotations

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.cycle import decide
from bursar.core.explain.explain import explain
from bursar.core.explain.preview import THIS_JOB, preview
from bursar.core.explain.queue_listing import list_queue
from bursar.core.explain.queue_position import EXACT_TURNS
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import StartJob
from bursar.model.jobs.job import JobSpec
from tests.core.picture import picture_of
from tests.support import fleet_of, job, pool, queue, state_of, submit, tenant

MODELS = frozenset({"a100-80gb"})


def arrival(state: FleetState, spec: JobSpec) -> AdmissionRequest:
    return AdmissionRequest(spec=spec, job_id=THIS_JOB, at_ms=0, state=state, known_models=MODELS)


def small_world() -> FleetState:
    return state_of(fleet_of(pool("a100", nodes=1, gpus=8)))


def test_a_preview_says_what_the_submitted_job_is_told() -> None:
    state = small_world()
    submit(state, job("first", gpus=8))
    told = preview(arrival(state, job("second", gpus=8))).explanation
    submit(state, job("second", gpus=8), job_id=THIS_JOB)
    assert told == explain(state, THIS_JOB, 0)


def test_a_preview_leaves_no_trace() -> None:
    state = small_world()
    submit(state, job("first", gpus=8))
    before, decided = picture_of(state, 0), decide(state, 0)
    for spec in (job("a", gpus=4), job("b", gpus=8, depends_on=("first",)), job("c", gpus=9)):
        preview(arrival(state, spec))
    assert picture_of(state, 0) == before
    assert decide(state, 0) == decided
    assert THIS_JOB not in state.jobs and THIS_JOB not in state.finished


def test_what_would_be_refused_is_listed() -> None:
    found = preview(arrival(small_world(), job("big", gpus=64)))
    assert [one.code for one in found.problems] == ["no-pool-fits"]
    assert found.explanation is None


def test_turns_are_in_the_order_in_which_jobs_start() -> None:
    state = state_of(
        fleet_of(pool("a100", nodes=1, gpus=4)),
        [tenant("acme"), queue("left", "acme"), queue("right", "acme")],
    )
    for number in range(3):
        submit(state, job(f"left-{number}", gpus=1, queue="left"), at_ms=number)
        submit(state, job(f"right-{number}", gpus=1, queue="right"), at_ms=10 + number)
    before = picture_of(state, 0)
    told = list_queue(state, 100)
    started = [one.job_id for one in decide(state, 100) if isinstance(one, StartJob)]
    assert [turn.record.id for turn in told][: len(started)] == started
    assert [turn.number for turn in told] == [1, 2, 3, 4, 5, 6]
    assert [bool(turn.reasons) for turn in told] == [False] * 4 + [True] * 2
    assert picture_of(state, 0) == before


def test_those_who_wait_for_others_come_last_with_their_reason() -> None:
    state = small_world()
    submit(state, job("first", gpus=1))
    submit(state, job("after", gpus=1, depends_on=("first",)))
    told = list_queue(state, 0)
    assert [turn.record.id for turn in told] == ["first", "after"]
    assert "depends on first" in str(told[1].reasons[0])


def test_behind_the_turns_that_are_played_each_queue_still_shows() -> None:
    state = state_of(
        fleet_of(pool("a100", nodes=1, gpus=1)),
        [tenant("acme"), queue("many", "acme"), queue("few", "acme", weight=0.0001)],
    )
    for number in range(EXACT_TURNS + 50):
        submit(state, job(f"many-{number:05d}", gpus=1, queue="many"))
    submit(state, job("few-1", gpus=1, queue="few"), at_ms=1)
    told = {turn.record.id: turn for turn in list_queue(state, 2)}
    assert "few-1" in told
    assert not told[f"many-{EXACT_TURNS + 40:05d}"].is_exact

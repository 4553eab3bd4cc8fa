"""Previews of jobs and listings of the queue; neither changes the state."""

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
from tests.core.observable_state import observable_state
from tests.support import fleet_of, job, pool, queue, state_of, submit, tenant

MODELS = frozenset({"a100-80gb"})


def request(state: FleetState, spec: JobSpec) -> AdmissionRequest:
    return AdmissionRequest(spec=spec, job_id=THIS_JOB, at_ms=0, state=state, known_models=MODELS)


def one_node() -> FleetState:
    return state_of(fleet_of(pool("a100", nodes=1, gpus=8)))


def test_a_preview_equals_the_explanation_of_the_submitted_job() -> None:
    state = one_node()
    submit(state, job("first", gpus=8))
    previewed = preview(request(state, job("second", gpus=8))).explanation
    submit(state, job("second", gpus=8), job_id=THIS_JOB)
    assert previewed == explain(state, THIS_JOB, 0)


def test_a_preview_changes_no_state() -> None:
    state = one_node()
    submit(state, job("first", gpus=8))
    before, decided = observable_state(state, 0), decide(state, 0)
    for spec in (job("a", gpus=4), job("b", gpus=8, depends_on=("first",)), job("c", gpus=9)):
        preview(request(state, spec))
    assert observable_state(state, 0) == before
    assert decide(state, 0) == decided
    assert THIS_JOB not in state.jobs and THIS_JOB not in state.finished


def test_a_preview_lists_the_problems_of_an_invalid_job() -> None:
    result = preview(request(one_node(), job("big", gpus=64)))
    assert [one.code for one in result.problems] == ["no-pool-fits"]
    assert result.explanation is None


def test_the_queue_is_listed_in_the_order_of_starts() -> None:
    state = state_of(
        fleet_of(pool("a100", nodes=1, gpus=4)),
        [tenant("acme"), queue("left", "acme"), queue("right", "acme")],
    )
    for number in range(3):
        submit(state, job(f"left-{number}", gpus=1, queue="left"), at_ms=number)
        submit(state, job(f"right-{number}", gpus=1, queue="right"), at_ms=10 + number)
    before = observable_state(state, 0)
    entries = list_queue(state, 100)
    started = [one.job_id for one in decide(state, 100) if isinstance(one, StartJob)]
    assert [entry.record.id for entry in entries][: len(started)] == started
    assert [entry.number for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert [bool(entry.reasons) for entry in entries] == [False] * 4 + [True] * 2
    assert observable_state(state, 0) == before


def test_jobs_with_dependencies_are_listed_last_with_their_reason() -> None:
    state = one_node()
    submit(state, job("first", gpus=1))
    submit(state, job("after", gpus=1, depends_on=("first",)))
    entries = list_queue(state, 0)
    assert [entry.record.id for entry in entries] == ["first", "after"]
    assert "depends on first" in str(entries[1].reasons[0])


def test_every_queue_is_listed_after_the_simulated_turns() -> None:
    state = state_of(
        fleet_of(pool("a100", nodes=1, gpus=1)),
        [tenant("acme"), queue("many", "acme"), queue("few", "acme", weight=0.0001)],
    )
    for number in range(EXACT_TURNS + 50):
        submit(state, job(f"many-{number:05d}", gpus=1, queue="many"))
    submit(state, job("few-1", gpus=1, queue="few"), at_ms=1)
    entries = {entry.record.id: entry for entry in list_queue(state, 2)}
    assert "few-1" in entries
    assert not entries[f"many-{EXACT_TURNS + 40:05d}"].is_exact

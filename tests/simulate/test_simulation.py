"""The simulation is deterministic, valid at every step, loses no job, and times are exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.admit import check_fleet, check_job
from bursar.core.check import require_valid
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import PreemptJob, StartJob
from bursar.model.errors import BrokenInvariant
from bursar.model.event import (
    AttemptAssigned,
    AttemptExpired,
    AttemptPreempted,
    AttemptSucceeded,
    Event,
    JobCancelled,
    JobSubmitted,
    NodeLost,
)
from bursar.model.jobs.job import CheckpointPolicy, JobSpec, JobState
from bursar.model.tenants.policy import OrderPolicy, Policies
from bursar.model.units import HOUR_MS, MINUTE_MS, SECOND_MS
from bursar.simulate.demo.demo import demonstration
from bursar.simulate.metrics import RunMetrics
from bursar.simulate.scenario import Scenario
from bursar.simulate.simulation import Simulation, Step
from tests.simulate.random_scenarios import random_scenario
from tests.support import fleet_of, job, pool, queue, tenant
from tests.support.state_audit import require_thoroughly_valid

OWNED = "a100-80gb/owned"
START_MS = 20 * SECOND_MS
STOP_MS = 30 * SECOND_MS
TENANTS = (
    tenant("acme"),
    queue("research", "acme", {OWNED: 4}),
    queue("product", "acme", {OWNED: 4}),
)


def small_scenario(*specs: tuple[int, JobSpec], more: Sequence[Event] = ()) -> Scenario:
    """One node of eight GPUs, two queues with four each, and jobs at their times."""
    submitted = [
        JobSubmitted(at_ms=at_ms, job_id=spec.name, spec=spec, priority=0) for at_ms, spec in specs
    ]
    events = sorted([*submitted, *more], key=lambda event: event.at_ms)
    return Scenario(fleet=fleet_of(pool("a100")), tenants=TENANTS, events=events)


def run_all(scenario: Scenario) -> list[Step]:
    return list(Simulation(scenario, check=require_valid).steps())


def events_of(steps: Sequence[Step], job_id: str) -> list[tuple[int, type[Event]]]:
    """The events of one job, without its submission and checkpoints."""
    events = [event for step in steps for event in (*step.events, *step.committed)]
    wanted = (AttemptAssigned, AttemptSucceeded, AttemptPreempted, AttemptExpired)
    return [
        (event.at_ms, type(event))
        for event in events
        if isinstance(event, wanted) and event.job_id == job_id
    ]


def without_real_time(steps: Sequence[Step]) -> list[Step]:
    return [replace(step, cycle_ns=None) for step in steps]


@pytest.mark.parametrize("scenario", [lambda: demonstration(3), lambda: random_scenario(3)])
def test_the_same_scenario_gives_the_same_steps(scenario: object) -> None:
    assert callable(scenario)
    assert without_real_time(run_all(scenario())) == without_real_time(run_all(scenario()))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gap_ms", [2 * MINUTE_MS, 8 * MINUTE_MS])
def test_a_random_scenario_is_valid_at_every_step_and_loses_no_job(seed: int, gap_ms: int) -> None:
    simulation = Simulation(random_scenario(seed, gap_ms=gap_ms), check=require_thoroughly_valid)
    metrics = RunMetrics(simulation.state)
    for step in simulation.steps():
        metrics.note(step)
    state = simulation.state
    assert state.live() == []
    assert [one for one in sorted(state.jobs) if not can_never_start(state, one)] == []
    outcomes = metrics.summary().outcomes
    assert outcomes.succeeded + outcomes.failed + outcomes.cancelled == len(state.finished)
    assert outcomes.unfinished == len(state.jobs)


def can_never_start(state: FleetState, job_id: str) -> bool:
    """Whether a job depends, directly or indirectly, on one that did not succeed."""
    if job_id in state.finished:
        return state.finished[job_id] is not JobState.SUCCEEDED
    return any(can_never_start(state, one) for one in state.jobs[job_id].spec.depends_on)


@pytest.mark.parametrize("seed", [1, 7])
def test_every_job_of_the_demonstration_ends(seed: int) -> None:
    simulation = Simulation(demonstration(seed), check=require_thoroughly_valid)
    submitted = {e.job_id for s in simulation.steps() for e in s.events if hasattr(e, "spec")}
    assert set(simulation.state.finished) == submitted
    assert len(submitted) > 60


def test_the_demonstration_passes_admission() -> None:
    scenario = demonstration(7)
    check_fleet(scenario.fleet, scenario.tenants, scenario.policies)
    state = FleetState(scenario.fleet, scenario.tenants, scenario.policies)
    for event in scenario.events:
        if isinstance(event, JobSubmitted):
            check_job(
                AdmissionRequest(
                    spec=event.spec,
                    job_id=event.job_id,
                    at_ms=event.at_ms,
                    state=state,
                    known_models={"a100-80gb"},
                )
            )
        state.apply(event)


def test_a_preempted_job_continues_from_its_checkpoint_after_its_restart_time() -> None:
    saves = CheckpointPolicy(interval_ms=30 * MINUTE_MS, restart_ms=5 * MINUTE_MS)
    borrower = job("borrower", 8, queue="research", hours=2, checkpoint=saves)
    owner = job("owner", 4, queue="product", hours=1)
    due_ms = 70 * MINUTE_MS
    steps = run_all(small_scenario((0, borrower), (due_ms, owner)))

    left_ms = due_ms + STOP_MS
    owner_done_ms = left_ms + START_MS + HOUR_MS
    assert events_of(steps, "owner") == [
        (left_ms, AttemptAssigned),
        (owner_done_ms, AttemptSucceeded),
    ]
    resumes_ms = owner_done_ms + START_MS + saves.restart_ms
    assert events_of(steps, "borrower") == [
        (0, AttemptAssigned),
        (left_ms, AttemptPreempted),
        (owner_done_ms, AttemptAssigned),
        (resumes_ms + HOUR_MS, AttemptSucceeded),
    ]


def test_without_checkpoints_all_work_is_repeated() -> None:
    borrower = job("borrower", 8, queue="research", hours=2)
    steps = run_all(
        small_scenario((0, borrower), (HOUR_MS, job("owner", 4, queue="product", hours=1)))
    )
    *_, (again_ms, _), (done_ms, _) = events_of(steps, "borrower")
    assert done_ms - again_ms == START_MS + 2 * HOUR_MS


def test_a_victim_is_preempted_when_its_minimum_run_time_has_passed() -> None:
    borrower = job("borrower", 8, queue="research", hours=2)
    owner = job("owner", 4, queue="product", hours=1)
    steps = run_all(small_scenario((0, borrower), (MINUTE_MS, owner)))
    preempted_ms = [s.now_ms for s in steps for d in s.decisions if isinstance(d, PreemptJob)]
    assert preempted_ms == [Policies().preemption.minimum_run_ms]


def test_a_job_is_stopped_at_its_maximum_run_time() -> None:
    endless = replace(job("endless", 1, hours=9), max_run_ms=HOUR_MS)
    steps = run_all(small_scenario((0, endless)))
    due_ms = START_MS + HOUR_MS
    assert events_of(steps, "endless") == [
        (0, AttemptAssigned),
        (due_ms, AttemptExpired),
        (due_ms + STOP_MS, AttemptPreempted),
    ]


def test_a_job_that_ends_within_its_grace_period_succeeds() -> None:
    nearly_done = job("nearly-done", 8, queue="research", hours=1)
    owner = job("owner", 4, queue="product", hours=1)
    done_ms = START_MS + HOUR_MS
    steps = run_all(small_scenario((0, nearly_done), (done_ms - SECOND_MS, owner)))
    assert events_of(steps, "nearly-done")[-1] == (done_ms, AttemptSucceeded)
    assert events_of(steps, "owner")[0] == (done_ms, AttemptAssigned)


def test_an_elastic_gang_with_half_its_tasks_takes_twice_the_time() -> None:
    fixed = job("fixed", 4, queue="research", hours=9)
    half = job("half", 4, 2, "product", hours=1, min_tasks=1)
    steps = run_all(small_scenario((0, fixed), (MINUTE_MS, half)))
    (begun_ms, _), (done_ms, _) = events_of(steps, "half")
    assert done_ms - begun_ms == START_MS + 2 * HOUR_MS


def test_an_attempt_that_ends_when_its_node_is_lost_is_lost() -> None:
    lost = NodeLost(at_ms=START_MS + HOUR_MS, node="a100-0001")
    simulation = Simulation(small_scenario((0, job("unlucky", 1, hours=1)), more=[lost]))
    steps = list(simulation.steps())
    assert events_of(steps, "unlucky") == [(0, AttemptAssigned)]
    assert simulation.state.jobs["unlucky"].state is JobState.QUEUED


def test_waiting_and_running_jobs_can_be_cancelled() -> None:
    cancelled = [JobCancelled(at_ms=HOUR_MS, job_id=name) for name in ("runs", "waits")]
    runs, waits = (job(name, 8, queue="research", hours=9) for name in ("runs", "waits"))
    simulation = Simulation(
        small_scenario((0, runs), (0, waits), more=cancelled), check=require_valid
    )
    steps = list(simulation.steps())
    assert events_of(steps, "runs")[-1] == (HOUR_MS + STOP_MS, AttemptPreempted)
    assert events_of(steps, "waits") == []
    assert set(simulation.state.finished.values()) == {JobState.CANCELLED}


def test_no_cycle_runs_for_events_that_cannot_change_a_decision() -> None:
    saves = CheckpointPolicy(interval_ms=MINUTE_MS)
    steps = run_all(small_scenario((0, job("alone", 1, hours=1, checkpoint=saves))))
    assert sum(step.cycle_ns is not None for step in steps) == 2
    assert len(steps) > 60


def test_a_job_that_ages_but_can_never_start_does_not_keep_the_clock_running() -> None:
    aging = Policies(order=OrderPolicy(aging_step_ms=HOUR_MS))
    too_big = job("too-big", 8, 9, "research", hours=1)
    scenario = replace(small_scenario((0, too_big), (0, job("small", hours=3))), policies=aging)
    steps = run_all(scenario)
    assert steps[-1].now_ms < 6 * HOUR_MS
    assert [d.job_id for s in steps for d in s.decisions if isinstance(d, StartJob)] == ["small"]


def test_events_out_of_order_are_refused() -> None:
    scenario = small_scenario((0, job("early", hours=1)), (HOUR_MS, job("late", hours=1)))
    backwards = replace(scenario, events=tuple(scenario.events)[::-1])
    with pytest.raises(BrokenInvariant, match="not in order of time"):
        run_all(backwards)

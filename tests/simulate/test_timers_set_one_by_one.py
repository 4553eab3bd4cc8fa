"""A simulation runs its cycles when timers set one by one, on one heap, would be due."""

from __future__ import annotations

import heapq

import pytest

from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.core.state.timers import (
    NEVER_MS,
    QUIET,
    attempts_matter,
    next_check_ms,
    next_outlasting_ms,
)
from bursar.model.decision import Hold, ReleaseClaim
from bursar.model.event import AttemptAssigned, AttemptStarted, Event, JobSubmitted
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import fence
from bursar.model.tenants.policy import OrderTerm
from bursar.model.units import MILLI
from bursar.simulate.scenario import Scenario
from bursar.simulate.simulation import Simulation
from tests.seeds import first_always
from tests.simulate.fault_scenarios import fault_scenario
from tests.simulate.random_scenarios import random_scenario

DEADLINE_CHECK = ""
WAITING = 0


class SetOneByOne:
    """The definition of ``Timers``: every timer on one heap, consumed once."""

    def __init__(self, state: FleetState) -> None:
        self.state = state
        self.has_waiting_jobs = False
        self._heap: list[tuple[int, str, int]] = []

    def apply(self, event: Event) -> None:
        self.state.apply(event)
        match event:
            case AttemptAssigned(job_id=job_id, attempt=attempt):
                if attempts_matter(self.state.policies):
                    limits = self.state.policies.preemption
                    self._set(event.at_ms + limits.minimum_run_ms, job_id, attempt)
                    self._set(self.state.jobs[job_id].end_at_ms, job_id, attempt)
            case AttemptStarted(job_id=job_id, attempt=attempt):
                if (record := self.state.jobs.get(job_id)) is not None:
                    self._set_after_start(record)
            case JobSubmitted(job_id=job_id):
                self._set_after_submission(self.state.jobs[job_id])
            case _:
                pass

    def _set(self, at_ms: int, job_id: str, attempt: int) -> None:
        if at_ms != NEVER_MS:
            heapq.heappush(self._heap, (at_ms, job_id, attempt))

    def _set_after_start(self, record: JobRecord) -> None:
        state, started_ms, gpu_milli = (
            self.state,
            record.started_at_ms,
            record.backlog.plan.gpu_milli,
        )
        assert started_ms is not None
        self._set(record.limit_at_ms or NEVER_MS, record.id, record.attempt)
        self._set(next_outlasting_ms(state, record, started_ms), record.id, record.attempt)
        order = state.policies.order
        if OrderTerm.LEAST_ATTAINED in order.terms and gpu_milli:
            for level in order.attained_levels_gpu_ms:
                left = level - record.attained_gpu_ms
                if left > 0:
                    at_ms = started_ms - (-left * MILLI // gpu_milli)
                    self._set(at_ms, record.id, record.attempt)

    def _set_after_submission(self, record: JobRecord) -> None:
        order, at_ms = self.state.policies.order, record.submitted_at_ms
        if record.deadline_ms is not None:
            slack_ms = record.deadline_ms - record.run_ms - at_ms
            if slack_ms >= order.urgent_slack_ms:
                self._set(at_ms + slack_ms - order.urgent_slack_ms + 1, record.id, WAITING)
        if order.aging_step_ms:
            self._set(at_ms + order.aging_step_ms, record.id, WAITING)

    def after_cycle(self, now_ms: int) -> None:
        self._set(next_check_ms(self.state, now_ms), DEADLINE_CHECK, WAITING)

    def due(self, now_ms: int) -> bool:
        is_due = False
        while self._heap and self._heap[0][0] <= now_ms:
            is_due = self._consume(*heapq.heappop(self._heap)) or is_due
        return is_due

    def _consume(self, at_ms: int, job_id: str, attempt: int) -> bool:
        if job_id == DEADLINE_CHECK:
            return bool(self.state.backlogs.deadline_jobs)
        record = self.state.jobs.get(job_id)
        if record is None:
            return False
        if attempt == WAITING:
            step_ms = self.state.policies.order.aging_step_ms
            if step_ms and not (at_ms - record.submitted_at_ms) % step_ms:
                self._set(at_ms + step_ms, job_id, WAITING)
            return record.state is JobState.QUEUED
        if fence(record, attempt) is None:
            return False
        if self._outlasts(record, at_ms):
            self._set(next_outlasting_ms(self.state, record, at_ms), job_id, attempt)
        return self.has_waiting_jobs or record.limit_at_ms == at_ms

    def _outlasts(self, record: JobRecord, at_ms: int) -> bool:
        """Whether the timer was set for the job's expected run time."""
        if record.started_at_ms is None:
            return False
        return next_outlasting_ms(self.state, record, at_ms - 1) == at_ms


def check_cycles_of(scenario: Scenario) -> None:
    naive = SetOneByOne(FleetState(scenario.fleet, scenario.tenants, scenario.policies))
    naive.state.spot.begin(0)
    released, timers = False, 0
    for step in Simulation(scenario).steps():
        assert not naive.due(step.now_ms - 1), f"no cycle ran before {step.now_ms}"
        for event in step.events:
            naive.apply(event)
        is_due = naive.due(step.now_ms)
        timers += is_due
        may_change_decisions = any(type(event) not in QUIET for event in step.events)
        needs_cycle = is_due or released or may_change_decisions
        assert (step.cycle_ns is not None) == needs_cycle
        for event in step.committed:
            naive.apply(event)
        if step.cycle_ns is not None:
            naive.has_waiting_jobs = any(isinstance(one, Hold) for one in step.decisions)
            naive.after_cycle(step.now_ms)
            released = any(isinstance(one, ReleaseClaim) for one in step.decisions)
    assert timers


@pytest.mark.parametrize("seed", first_always(3, range(12)))
def test_on_random_scenarios(seed: int) -> None:
    check_cycles_of(random_scenario(seed))


@pytest.mark.parametrize("seed", first_always(3, range(12)))
def test_on_scenarios_full_of_faults(seed: int) -> None:
    check_cycles_of(fault_scenario(seed))

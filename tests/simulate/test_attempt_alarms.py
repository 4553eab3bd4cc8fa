"""Alarms that are asked for ring when those that are set one by one would."""

from __future__ import annotations

import heapq
from dataclasses import replace

import pytest

from bursar.core.alarms import NEVER_MS, Wake, still_matters, wake_again, wakes_after
from bursar.core.line import JobRecord
from bursar.core.state import FleetState
from bursar.model.event import AttemptAssigned, AttemptStarted
from bursar.simulate.loop import Simulation, Step
from bursar.simulate.scenario import Scenario
from tests.simulate.fault_days import fault_day
from tests.simulate.rough_days import rough_day


class SetOneByOne:
    """What ``AttemptAlarms`` stands for, spelled out: each alarm on a heap, heard once."""

    are_set = True

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self._wakes: list[tuple[int, str, int]] = []

    def assigned(self, event: AttemptAssigned) -> None:
        self._set_after(event)

    def started(self, record: JobRecord) -> None:
        started_ms = record.started_at_ms
        assert started_ms is not None
        event = AttemptStarted(at_ms=started_ms, job_id=record.id, attempt=record.attempt)
        self._set_after(event)

    def _set_after(self, event: AttemptAssigned | AttemptStarted) -> None:
        for wake in wakes_after(self._state, event):
            heapq.heappush(self._wakes, (wake.at_ms, wake.job_id, wake.attempt))

    def next_ms(self) -> int:
        return self._wakes[0][0] if self._wakes else NEVER_MS

    def pass_by(self, now_ms: int) -> None:
        self._pass(now_ms)

    def hear(self, now_ms: int) -> bool:
        return self._pass(now_ms)

    def _pass(self, now_ms: int) -> bool:
        rings = False
        while self._wakes and self._wakes[0][0] <= now_ms:
            at_ms, job_id, attempt = heapq.heappop(self._wakes)
            wake = Wake(at_ms=at_ms, job_id=job_id, attempt=attempt)
            again = wake_again(self._state, wake)
            if again is not None:
                heapq.heappush(self._wakes, (again.at_ms, again.job_id, again.attempt))
            matters = still_matters(self._state, wake, someone_waits=True)
            rings = rings or (matters and at_ms == now_ms)
        return rings


def steps_of(scenario: Scenario, *, one_by_one: bool) -> list[Step]:
    simulation = Simulation(scenario)
    if one_by_one:
        simulation.use_alarms(SetOneByOne(simulation.state))
    return [replace(step, cycle_ns=None) for step in simulation.steps()]


@pytest.mark.parametrize("seed", range(12))
def test_on_rough_days(seed: int) -> None:
    asked = steps_of(rough_day(seed), one_by_one=False)
    assert asked == steps_of(rough_day(seed), one_by_one=True)


@pytest.mark.parametrize("seed", range(12))
def test_on_days_full_of_faults(seed: int) -> None:
    asked = steps_of(fault_day(seed), one_by_one=False)
    assert asked == steps_of(fault_day(seed), one_by_one=True)

"""Caches kept between cycles, and steps a cycle skips, change no decision."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given

from bursar.core import cycle
from bursar.core.cycle import decide
from bursar.core.draft import Draft
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import Decision
from bursar.model.event import Event
from tests.properties.random_steps import ANY_SCRIPT, Script, StepRunner, fresh_state


class NeverLastDraft(Draft):
    """Writes every start into the state, even if no other job waits."""

    @property
    def is_last(self) -> bool:
        return False

    @is_last.setter
    def is_last(self, value: bool) -> None:
        pass


def rebuilt(runner: StepRunner, log: Sequence[Event]) -> FleetState:
    """The same events applied to a state that has never decided anything."""
    state = fresh_state(runner.world)
    for event in log:
        state.apply(event)
    return state


@given(ANY_SCRIPT)
def test_a_used_state_decides_like_a_new_one(script: Script) -> None:
    """Cached allocations, charges, backlogs and plans equal freshly computed ones."""

    def compare(runner: StepRunner, decisions: tuple[Decision, ...]) -> None:
        assert decide(rebuilt(runner, runner.harness.log), runner.now_ms) == decisions

    StepRunner(script.world, compare).run(script)


@given(ANY_SCRIPT)
def test_the_last_job_of_a_cycle_gets_the_same_result_without_the_shortcut(script: Script) -> None:
    def compare(runner: StepRunner, decisions: tuple[Decision, ...]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cycle, "Draft", NeverLastDraft)
            assert decide(runner.state, runner.now_ms) == decisions

    StepRunner(script.world, compare).run(script)

"""A state restored from a snapshot equals the original and decides the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from bursar.codec import from_text, to_text
from bursar.core.cycle import decide
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.snapshot import from_snapshot, redeclare, to_snapshot
from bursar.model.event import FleetDeclared
from bursar.model.state_snapshot import StateSnapshot
from tests.properties.dump import dump
from tests.properties.random_steps import ANY_SCRIPT, Script, StepRunner
from tests.support.state_audit import state_faults

CACHES = ("mix", "finished")
"""What a snapshot leaves out: the recent mix of shapes fades within minutes; of finished jobs, only failures
that other jobs depend on matter."""


def declared_by(runner: StepRunner) -> FleetDeclared:
    world = runner.world
    return FleetDeclared(
        at_ms=0, fleet=world.fleet, tenants=tuple(world.tenants), policies=world.policies
    )


def compared(state: FleetState) -> dict[str, Any]:
    known = dump(state)
    for part in CACHES:
        del known[part]
    return known


@given(ANY_SCRIPT)
def test_a_restored_state_equals_the_original_and_decides_the_same(script: Script) -> None:
    runner = StepRunner(script.world).run(script)
    snapshot = to_snapshot(runner.state, declared_by(runner), runner.now_ms)
    through_text = from_text(StateSnapshot, to_text(snapshot))
    assert through_text == snapshot
    again = from_snapshot(through_text)
    assert compared(again) == compared(runner.state)
    assert not state_faults(again)
    assert set(decide(again, runner.now_ms)) == set(decide(runner.state, runner.now_ms))


@given(ANY_SCRIPT)
def test_the_same_declaration_again_changes_nothing(script: Script) -> None:
    runner = StepRunner(script.world).run(script)
    before = declared_by(runner)
    now = to_snapshot(runner.state, before, runner.now_ms).declared
    again = redeclare(runner.state, before, now)
    assert compared(again) == compared(runner.state)

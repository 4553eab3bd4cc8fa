"""A state restored from a snapshot equals the old one and decides the same."""

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
from tests.properties.plays import ANY_SCRIPT, Play, Script
from tests.support.state_audit import state_faults

CACHES = ("mix", "finished")
"""What a snapshot leaves out: the recent mix of shapes fades within minutes; of what is over, only failures
that someone still waits for matter."""


def declared_by(play: Play) -> FleetDeclared:
    world = play.world
    return FleetDeclared(
        at_ms=0, fleet=world.fleet, tenants=tuple(world.tenants), policies=world.policies
    )


def knowledge(state: FleetState) -> dict[str, Any]:
    known = dump(state)
    for part in CACHES:
        del known[part]
    return known


@given(ANY_SCRIPT)
def test_a_restored_state_equals_the_old_one_and_decides_the_same(script: Script) -> None:
    play = Play(script.world).run(script)
    snapshot = to_snapshot(play.state, declared_by(play), play.now_ms)
    through_text = from_text(StateSnapshot, to_text(snapshot))
    assert through_text == snapshot
    again = from_snapshot(through_text)
    assert knowledge(again) == knowledge(play.state)
    assert not state_faults(again)
    assert set(decide(again, play.now_ms)) == set(decide(play.state, play.now_ms))


@given(ANY_SCRIPT)
def test_the_same_declaration_again_changes_nothing(script: Script) -> None:
    play = Play(script.world).run(script)
    before = declared_by(play)
    now = to_snapshot(play.state, before, play.now_ms).declared
    again = redeclare(play.state, before, now)
    assert knowledge(again) == knowledge(play.state)

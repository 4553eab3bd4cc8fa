"""Whatever happens, the decisions of every cycle are sound, and taking them changes nothing else."""

from __future__ import annotations

from hypothesis import given

from bursar.core.cycle import decide
from bursar.core.nodes.slices import SlicePool
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import Decision
from bursar.model.fleet.gpu import GpuMode
from bursar.model.fleet.mig_layout import layout_fault
from tests.properties.dump import dump, first_difference
from tests.properties.plays import ANY_SCRIPT, Play, Script, fresh_state
from tests.support.state_audit import require_thoroughly_valid


def must_be_sound(play: Play, decisions: tuple[Decision, ...]) -> None:
    require_thoroughly_valid(play.state, decisions, play.now_ms)


@given(ANY_SCRIPT)
def test_no_cycle_of_any_play_violates_an_invariant(script: Script) -> None:
    Play(script.world, must_be_sound).run(script)


def must_be_pure(play: Play, decisions: tuple[Decision, ...]) -> None:
    """The cycle has just been decided once: again, and nothing may have changed in between."""
    before = dump(play.state)
    assert decide(play.state, play.now_ms) == decisions
    after = dump(play.state)
    assert not first_difference(before, after)


@given(ANY_SCRIPT)
def test_deciding_changes_nothing_and_deciding_again_decides_the_same(script: Script) -> None:
    play = Play(script.world, must_be_pure)
    for step in script.steps:
        before = dump(play.state)
        decide(play.state, play.now_ms)
        assert not first_difference(before, dump(play.state))
        play.run_step(step)


@given(ANY_SCRIPT)
def test_a_state_rebuilt_from_the_log_is_the_same_and_decides_the_same(script: Script) -> None:
    play = Play(script.world).run(script)
    rebuilt = fresh_state(script.world)
    for event in play.stage.log:
        rebuilt.apply(event)
    assert not first_difference(dump(play.state), dump(rebuilt))
    assert decide(play.state, play.now_ms) == decide(rebuilt, play.now_ms)


def devices_are_sound(state: FleetState) -> None:
    """Each GPU has one mode, a legal layout and no more holders than fit."""
    for pool in state.pools.values():
        for node in pool.nodes:
            assert node.cpu_free_milli >= 0 or node.foreign is not None
            for device in node.devices:
                shares = [share for held in device.shares.values() for share in held]
                modes = [device.whole_holder is not None, bool(device.layout), bool(shares)]
                assert sum(modes) <= 1
                assert (device.mode is GpuMode.IDLE) == (not any(modes))
                assert sum(share.percent for share in shares) <= 100
                assert sum(share.memory_mib for share in shares) <= device.model.memory_mib
                assert len(shares) <= device.mps_client_limit
                assert set(device.held) <= set(device.layout)
                if device.layout:
                    assert device.model.mig is not None and pool.spec.mig_allowed
                    assert not layout_fault(device.model.mig, device.layout)
        index_is_true(pool.slices, state)


def index_is_true(kept: SlicePool | None, state: FleetState) -> None:
    """The index over parts of GPUs offers what one built anew would."""
    if kept is None:
        return
    anew = SlicePool(kept.geometry)
    for key, device in kept._devices.items():
        node, gpu = key
        assert state.node(node).devices[gpu] is device
        anew.add(key, device)
    for profile in kept.free_by_profile:
        assert list(kept.slice_candidates(profile)) == list(anew.slice_candidates(profile))
    for percent in (1, 50, 100):
        assert list(kept.share_candidates(percent, 0)) == list(anew.share_candidates(percent, 0))
    assert list(kept.share_candidates(100, 0)) == list(anew.share_candidates(100, 0))


@given(ANY_SCRIPT)
def test_every_gpu_is_in_one_legal_mode_at_all_times(script: Script) -> None:
    play = Play(script.world)
    for step in script.steps:
        play.run_step(step)
        devices_are_sound(play.state)

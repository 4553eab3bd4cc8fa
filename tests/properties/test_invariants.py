"""The decisions of every cycle are valid, and deciding changes no state."""

from __future__ import annotations

from hypothesis import given

from bursar.core.cycle import decide
from bursar.core.nodes.slices import SlicePool
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import Decision
from bursar.model.fleet.gpu import GpuMode
from bursar.model.fleet.mig_layout import layout_fault
from tests.properties.dump import dump, first_difference
from tests.properties.random_steps import ANY_SCRIPT, Script, StepRunner, fresh_state
from tests.support.state_audit import require_thoroughly_valid


def require_valid_cycle(runner: StepRunner, decisions: tuple[Decision, ...]) -> None:
    require_thoroughly_valid(runner.state, decisions, runner.now_ms)


@given(ANY_SCRIPT)
def test_no_cycle_violates_an_invariant(script: Script) -> None:
    StepRunner(script.world, require_valid_cycle).run(script)


def require_pure(runner: StepRunner, decisions: tuple[Decision, ...]) -> None:
    """Decides a second time: neither the decisions nor the state may differ."""
    before = dump(runner.state)
    assert decide(runner.state, runner.now_ms) == decisions
    after = dump(runner.state)
    assert not first_difference(before, after)


@given(ANY_SCRIPT)
def test_deciding_changes_nothing_and_deciding_again_decides_the_same(script: Script) -> None:
    runner = StepRunner(script.world, require_pure)
    for step in script.steps:
        before = dump(runner.state)
        decide(runner.state, runner.now_ms)
        assert not first_difference(before, dump(runner.state))
        runner.run_step(step)


@given(ANY_SCRIPT)
def test_a_state_rebuilt_from_the_log_is_the_same_and_decides_the_same(script: Script) -> None:
    runner = StepRunner(script.world).run(script)
    rebuilt = fresh_state(script.world)
    for event in runner.harness.log:
        rebuilt.apply(event)
    assert not first_difference(dump(runner.state), dump(rebuilt))
    assert decide(runner.state, runner.now_ms) == decide(rebuilt, runner.now_ms)


def check_devices(state: FleetState) -> None:
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
        check_index(pool.slices, state)


def check_index(index: SlicePool | None, state: FleetState) -> None:
    """The slice index offers what a rebuilt one would."""
    if index is None:
        return
    rebuilt = SlicePool(index.geometry)
    for key, device in index._devices.items():
        node, gpu = key
        assert state.node(node).devices[gpu] is device
        rebuilt.add(key, device)
    for profile in index.free_by_profile:
        assert list(index.slice_candidates(profile)) == list(rebuilt.slice_candidates(profile))
    for percent in (1, 50, 100):
        assert list(index.share_candidates(percent, 0)) == list(
            rebuilt.share_candidates(percent, 0)
        )
    assert list(index.share_candidates(100, 0)) == list(rebuilt.share_candidates(100, 0))


@given(ANY_SCRIPT)
def test_every_gpu_is_in_one_legal_mode_at_all_times(script: Script) -> None:
    runner = StepRunner(script.world)
    for step in script.steps:
        runner.run_step(step)
        check_devices(runner.state)

"""Two hundred scenarios full of faults are valid at every step and end with no resource in use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from bursar.simulate.simulation import Simulation, Step
from tests.seeds import first_always
from tests.simulate.fault_scenarios import fault_scenario, run_and_check

SEEDS = 200
WRITE_LOGS = """
import sys
from bursar.simulate.workload.event_log import write_events
from tests.simulate.test_fault_seeds import steps_of
for seed in range(3, 200, 40):
    for step in steps_of(seed):
        write_events((*step.events, *step.committed), sys.stdout)
"""
REPEAT = "python -m tests.simulate.repeat"


@pytest.mark.parametrize("seed", first_always(20, range(SEEDS)))
def test_a_fault_scenario_is_valid_at_every_step_and_ends(seed: int) -> None:
    try:
        for _ in run_and_check(fault_scenario(seed)):
            pass
    except Exception as error:
        error.add_note(f"\nto repeat it: {REPEAT} {seed}")
        raise


@pytest.mark.parametrize("seed", first_always(2, range(0, SEEDS, 25)))
def test_the_same_seed_gives_the_same_scenario(seed: int) -> None:
    assert steps_of(seed) == steps_of(seed)


def test_every_process_writes_the_same_log() -> None:
    """Sets have another order in every process, because text is hashed differently."""
    written = {
        subprocess.run(
            [sys.executable, "-c", WRITE_LOGS],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(written) == 1
    assert b"AttemptSucceeded" in written.pop()


def test_the_scenarios_contain_enough_faults() -> None:
    """Scenarios without faults would pass every test."""
    seen: Counter[str] = Counter()
    for seed in range(0, SEEDS, 10):
        for step in steps_of(seed):
            seen.update(type(event).__name__ for event in (*step.events, *step.committed))
    wanted = ("NodeLost", "NodeAdded", "SpotNotice", "AttemptFailed", "AttemptPreempted")
    assert all(seen[name] >= 20 for name in wanted), seen
    assert seen["AttemptSucceeded"] > 100 and seen["CheckpointSaved"] > 100


def steps_of(seed: int) -> list[Step]:
    return [replace(step, cycle_ns=None) for step in Simulation(fault_scenario(seed)).steps()]

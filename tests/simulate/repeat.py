"""Runs one fault scenario again, step by step: ``python -m tests.simulate.repeat 137``."""

from __future__ import annotations

import sys

from bursar.model.decision import Hold
from tests.simulate.fault_scenarios import fault_scenario, run_and_check


def main(seed: int) -> None:
    """Prints events and decisions, up to the step that fails or to the end."""
    for step in run_and_check(fault_scenario(seed)):
        print(f"{step.now_ms:>12,} ms")
        for event in step.events:
            print(f"    {event}")
        for decision in step.decisions:
            if not isinstance(decision, Hold):
                print(f"    -> {decision}")
    print(f"seed {seed}: valid at every step, and no resource is in use at the end")


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""Live through one day of faults again, step by step: ``python -m tests.simulate.repeat 137``."""

from __future__ import annotations

import sys

from bursar.model.decision import Hold
from tests.simulate.fault_scenarios import fault_scenario, run_and_check


def main(seed: int) -> None:
    """Print what happened and what was decided, up to the step that fails or to the end."""
    for step in run_and_check(fault_scenario(seed)):
        print(f"{step.now_ms:>12,} ms")
        for event in step.events:
            print(f"    {event}")
        for decision in step.decisions:
            if not isinstance(decision, Hold):
                print(f"    -> {decision}")
    print(f"seed {seed}: sound at every step, and nothing is left over")


if __name__ == "__main__":
    main(int(sys.argv[1]))

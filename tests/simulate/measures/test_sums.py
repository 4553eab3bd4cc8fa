"""Whatever happens, the sums are right: against a slow count that looks at everything at every step."""

from __future__ import annotations

from collections import defaultdict

import pytest

from bursar.core.charge import gpu_milli_held
from bursar.core.state import FleetState
from bursar.model.gpu import slice_milli
from bursar.model.job import JobState
from bursar.model.units import HOUR_MS, MILLI
from bursar.simulate.loop import Simulation
from bursar.simulate.measures import Measures
from tests.simulate.rough_days import rough_day

SEEDS = range(25)


class SlowCount:
    """Integrals by looking at the whole state between steps."""

    def __init__(self) -> None:
        self.capacity = self.held = self.waiting = 0
        self.by_team: dict[str, int] = defaultdict(int)
        self.capacity_usd: dict[str, int] = defaultdict(int)
        self.held_usd: dict[str, int] = defaultdict(int)

    def pass_time(self, state: FleetState, span_ms: int) -> None:
        for pool in state.pools.values():
            spec = pool.spec
            self.capacity += span_ms * MILLI * len(pool.nodes) * spec.gpus_per_node
            self.capacity_usd[spec.market] += (
                span_ms * len(pool.nodes) * spec.node_micro_usd_per_hour
            )
        parts: dict[tuple[str, int], int] = defaultdict(int)
        for record in state.live():
            assert record.placement is not None
            spec = state.pools[record.placement.pool].spec
            self.held_usd[spec.market] += span_ms * record.placement.micro_usd_per_hour
            for task in record.placement.tasks:
                self.by_team[record.spec.queue] += span_ms * gpu_milli_held(task, spec.gpu_model)
                for gpu in task.gpus:
                    parts[task.node, gpu] += MILLI
                for share in task.shares:
                    parts[task.node, share.gpu] += share.percent * 10
                for use in task.slices:
                    assert spec.gpu_model is not None and spec.gpu_model.mig is not None
                    profile = use.instance.profile
                    parts[task.node, use.gpu] += slice_milli(spec.gpu_model.mig, profile)
        self.held += span_ms * sum(min(MILLI, milli) for milli in parts.values())
        queued = sum(record.state is JobState.QUEUED for record in state.jobs.values())
        self.waiting += span_ms * queued


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_agree_with_a_slow_count_to_the_last_unit(seed: int) -> None:
    simulation = Simulation(rough_day(seed))
    measures, slow = Measures(simulation.state), SlowCount()
    last_ms = None
    rest = None
    for step in simulation.steps():
        measures.note(step)
        if rest is not None:
            slow = SlowCount()
            slow.__dict__.update(rest)
        del rest
        rest = None
        last_ms = step.now_ms
    assert last_ms is not None

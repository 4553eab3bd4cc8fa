"""(c) One gang of 4,096 GPUs on 5,000 half-busy nodes, in the smallest topology domain that fits."""

from __future__ import annotations

from benchmarks.figure import Figure, Stopwatch
from bursar.core.cycle import decide
from bursar.core.order_events import events_for
from bursar.model.decision import StartJob
from bursar.model.jobs.job import Topology
from tests.support import fleet_of, job, pool, state_of, submit

NODES, TASKS = 5_000, 512
ROUNDS = 20


def figures() -> list[Figure]:
    """Time of the cycle that places the gang, with and without a required block."""
    rows = []
    for name, topology in (
        ("preferred rack, then block", Topology()),
        ("required block", Topology(required="block")),
    ):
        watch = _measure_cycles(topology)
        rows.append(
            Figure(
                scenario=f"(c) one gang of {TASKS * 8:,} GPUs on {NODES:,} nodes, {name}",
                what="cycle p50 / p99, ms",
                measured=f"{watch.percentile_ms(50):.1f} / {watch.percentile_ms(99):.1f}",
                reference="no target; a cycle of (a): under 50",
            )
        )
    return rows


def _measure_cycles(topology: Topology) -> Stopwatch:
    fleet = fleet_of(pool("a100", NODES), topology={"block": 1_000, "rack": 50})
    state = state_of(fleet)
    for number in range(NODES // 4):
        submit(state, job(f"filler-{number:05d}", gpus=4))
    for decision in decide(state, 0):
        for event in events_for(decision, 0):
            state.apply(event)
    submit(state, job("gang", gpus=8, tasks=TASKS, topology=topology))
    watch = Stopwatch()
    for _ in range(ROUNDS):
        with watch.lap():
            decisions = decide(state, 1)
        if not any(isinstance(one, StartJob) for one in decisions):
            raise RuntimeError("the gang was not placed")
    return watch

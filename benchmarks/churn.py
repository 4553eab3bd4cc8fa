"""(a) Steady churn on a large fleet: 5,000 nodes, 1,000 queues, a long backlog of few kinds.

In every cycle equally many jobs end and arrive. The time of a placement includes all work of the core: the
submission, the decision, and the events of the start and the end.
"""

from __future__ import annotations

import gc
import random
from dataclasses import dataclass

from benchmarks.figure import Figure, Stopwatch, peak_memory_gb
from bursar.core.cycle import decide
from bursar.core.order_events import events_for
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import Hold, StartJob
from bursar.model.event import AttemptSucceeded, JobSubmitted
from bursar.model.jobs.job import JobSpec
from tests.support import fleet_of, job, pool, queue, state_of, tenant

FLAVOR = "a100-80gb/owned"
NODES, QUEUES, TEAMS = 5_000, 1_000, 10
CYCLE_MS = 200
CYCLES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Numbers of waiting and running jobs, of kinds, and of ends and arrivals per cycle."""

    waiting: int
    running: int = 10_000
    kinds: int = 200
    churn: int = 100
    seed: int = 1


class Churn:
    """A fleet with a constant stream of jobs."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.chance = random.Random(load.seed)
        self.now_ms = 0
        self.submitted = 0
        self.running: list[tuple[str, int]] = []
        self.state = _fleet()
        self.kinds = [self._kind(number) for number in range(load.kinds)]
        self._submit(load.waiting + load.running)
        self._cycle(Stopwatch())
        self._submit(load.waiting - self.waiting)

    def _kind(self, number: int) -> JobSpec:
        """Mostly single nodes, some gangs of whole nodes: about 10,000 jobs fill the fleet."""
        gpus = self.chance.choice((2, 4, 4, 4, 4, 8, 8))
        tasks = 1
        if number % 40 == 0:
            gpus, tasks = 8, self.chance.choice((2, 4))
        return job(
            f"kind-{number}",
            gpus=gpus,
            tasks=tasks,
            queue=f"queue-{number * QUEUES // self.load.kinds % QUEUES:04d}",
            cpu=gpus * 8,
            memory_gib=gpus * 64,
            hours=self.chance.choice((0.5, 1, 2, 4, 8)),
        )

    @property
    def waiting(self) -> int:
        return sum(backlog.count for backlog in self.state.backlogs.by_key.values())

    def _submit(self, count: int) -> None:
        for _ in range(count):
            self.submitted += 1
            spec = self.kinds[self.submitted % len(self.kinds)]
            self.state.apply(
                JobSubmitted(
                    at_ms=self.now_ms, job_id=f"job-{self.submitted:08d}", spec=spec, priority=0
                )
            )

    def _choose_ending(self) -> list[tuple[str, int]]:
        """Remove and return the jobs that end in this cycle, outside the measured time."""
        running, chosen = self.running, []
        for _ in range(min(self.load.churn, len(running))):
            index = self.chance.randrange(len(running))
            running[index], running[-1] = running[-1], running[index]
            chosen.append(running.pop())
        return chosen

    def _end(self, ending: list[tuple[str, int]]) -> None:
        for job_id, attempt in ending:
            self.state.apply(AttemptSucceeded(at_ms=self.now_ms, job_id=job_id, attempt=attempt))

    def _cycle(self, decide_time: Stopwatch) -> int:
        with decide_time.lap():
            decisions = decide(self.state, self.now_ms)
        placed = 0
        for decision in decisions:
            if isinstance(decision, Hold):
                continue
            for event in events_for(decision, self.now_ms):
                self.state.apply(event)
            if isinstance(decision, StartJob):
                self.running.append((decision.job_id, decision.attempt))
                placed += 1
        return placed

    def run(self) -> tuple[int, Stopwatch, Stopwatch]:
        """Return the placements, the total time and the time of the decisions."""
        total, decide_time = Stopwatch(), Stopwatch()
        placed = 0
        gc.collect()
        gc.freeze()
        for _ in range(CYCLES):
            self.now_ms += CYCLE_MS
            ending = self._choose_ending()
            with total.lap():
                self._end(ending)
                self._submit(self.load.churn)
                placed += self._cycle(decide_time)
        gc.unfreeze()
        return placed, total, decide_time


def _fleet() -> FleetState:
    fleet = fleet_of(
        pool("a100", NODES, cpu=96, memory_gib=1_024), topology={"block": 250, "rack": 25}
    )
    tenants = [tenant("acme")]
    tenants += [tenant(f"team-{number:02d}", "acme") for number in range(TEAMS)]
    tenants += [
        queue(f"queue-{number:04d}", f"team-{number % TEAMS:02d}", {FLAVOR: 40})
        for number in range(QUEUES)
    ]
    return state_of(fleet, tenants)


def figures() -> list[Figure]:
    """100,000 waiting jobs, compared with 10,000, and with ten times as many kinds."""
    small = Churn(Load(waiting=10_000))
    _, _, small_cycles = small.run()
    del small
    large = Churn(Load(waiting=100_000))
    placed, total, cycles = large.run()
    name = "(a) 5,000 nodes, 1,000 queues, 100,000 waiting of 200 kinds"
    running = len(large.running)
    del large
    growth = cycles.percentile_ms(50) / small_cycles.percentile_ms(50)
    rows = [
        Figure(
            scenario=name,
            what=f"placements per CPU-second, {running:,} running",
            measured=f"{placed / total.total:,.0f}",
            reference="target 5,000",
        ),
        Figure(
            scenario=name,
            what="cycle p50 / p99, ms",
            measured=f"{cycles.percentile_ms(50):.1f} / {cycles.percentile_ms(99):.1f}",
            reference="target p99 under 50",
        ),
        Figure(
            scenario=name,
            what="peak memory, GB",
            measured=f"{peak_memory_gb():.2f}",
            reference="target under 1.5",
        ),
        Figure(
            scenario=name,
            what="cycle p50, 100,000 waiting / 10,000 waiting",
            measured=f"{growth:.2f}x",
            reference="target under 1.5x",
        ),
    ]
    wide = Churn(Load(waiting=100_000, kinds=2_000))
    placed, total, cycles = wide.run()
    rows.append(
        Figure(
            scenario="(a') same as (a), with 2,000 kinds in all 1,000 queues",
            what="placements per CPU-second; cycle p50 / p99, ms",
            measured=f"{placed / total.total:,.0f}; "
            f"{cycles.percentile_ms(50):.1f} / {cycles.percentile_ms(99):.1f}",
            reference="no target",
        )
    )
    return rows

"""(d) Churn of MIG jobs on 1,000 GPUs."""

from __future__ import annotations

import random

from benchmarks.figure import Figure, Stopwatch
from bursar.core.cycle import decide
from bursar.core.order_events import events_for
from bursar.model.decision import Hold, StartJob
from bursar.model.event import AttemptSucceeded
from tests.support import fleet_of, mig_job, pool, state_of, submit

GPUS = 1_000
PROFILES = ("1g.10gb", "1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb")
PER_SECOND = 1_000
CYCLES_PER_SECOND = 5
SECONDS = 10


def figures() -> list[Figure]:
    """Ten virtual seconds, each with 1,000 arrivals, as many ends, and five cycles."""
    chance = random.Random(4)
    state = state_of(fleet_of(pool("a100", GPUS // 8)))
    specs = [mig_job(f"slice-{profile}", profile) for profile in sorted(set(PROFILES))]
    by_profile = dict(zip(sorted(set(PROFILES)), specs, strict=True))
    total, cycles = Stopwatch(), Stopwatch()
    running: list[tuple[str, int]] = []
    placed = submitted = 0
    for cycle in range(SECONDS * CYCLES_PER_SECOND):
        now_ms = cycle * 1_000 // CYCLES_PER_SECOND
        with total.lap():
            for _ in range(PER_SECOND // CYCLES_PER_SECOND):
                submitted += 1
                submit(state, by_profile[chance.choice(PROFILES)], f"job-{submitted:06d}", now_ms)
            with cycles.lap():
                decisions = decide(state, now_ms)
            for decision in decisions:
                if isinstance(decision, Hold):
                    continue
                for event in events_for(decision, now_ms):
                    state.apply(event)
                if isinstance(decision, StartJob):
                    placed += 1
                    running.append((decision.job_id, decision.attempt))
            for _ in range(max(0, len(running) - 3 * PER_SECOND)):
                index = chance.randrange(len(running))
                running[index], running[-1] = running[-1], running[index]
                job_id, attempt = running.pop()
                state.apply(AttemptSucceeded(at_ms=now_ms, job_id=job_id, attempt=attempt))
    name = f"(d) MIG jobs on {GPUS:,} GPUs, {PER_SECOND:,} arrivals per second"
    return [
        Figure(
            scenario=name,
            what="placements per CPU-second",
            measured=f"{placed / total.total:,.0f}",
            reference="target 1,000",
        ),
        Figure(
            scenario=name,
            what="cycle p50 / p99, ms",
            measured=f"{cycles.percentile_ms(50):.1f} / {cycles.percentile_ms(99):.1f}",
            reference="target under 200: five cycles per second",
        ),
    ]

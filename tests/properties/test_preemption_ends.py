"""Preemption ends: no world stops and restarts the same jobs forever."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from bursar.model.decision import ClaimPlacement, PreemptJob, StartJob
from bursar.model.jobs.job import JobSpec
from bursar.model.tenants.policy import FairStrategy, Policies, PreemptionLimits
from bursar.model.units import MINUTE_MS
from tests.properties.random_steps import StepRunner
from tests.properties.worlds import (
    EAGER,
    STRATEGIES,
    VICTIM_ORDERS,
    World,
    brief,
    contested_worlds,
    specs,
)
from tests.support import fleet_of, job, pool, queue, tenant

CYCLES = 1_000
QUIET = 100
FEW = max(6, settings.default.max_examples // 3)


LIMITED = st.builds(
    PreemptionLimits,
    victim_order=VICTIM_ORDERS,
    fair_strategies=STRATEGIES,
    minimum_run_ms=st.just(0),
    preemptions_per_job=st.integers(1, 3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A contested world and its jobs, each with the cycles since the one before."""

    world: World
    jobs: tuple[tuple[int, JobSpec], ...]

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:
        printer.text(f"{brief(self.world)}\n" + "\n".join(brief(one) for one in self.jobs))


@st.composite
def contests(draw: st.DrawFn, limits: st.SearchStrategy[PreemptionLimits]) -> Contest:
    world = draw(contested_worlds(limits))
    jobs = draw(st.lists(st.tuples(st.integers(0, 3), specs(world)), min_size=4, max_size=10))
    endless = tuple((wait, replace(spec, max_run_ms=None)) for wait, spec in jobs)
    return Contest(world=world, jobs=endless)


class OrderCount:
    """Counts the orders of each cycle; no job ends by itself."""

    def __init__(self, contest: Contest) -> None:
        self.runner = StepRunner(contest.world)
        self.preemptions: list[int] = []
        self.moves: list[int] = []
        for wait, spec in contest.jobs:
            for _ in range(wait):
                self.cycle()
            self.runner.submit(spec)

    def cycle(self) -> None:
        harness = self.runner.harness
        decisions = self.runner.cycle()
        self.preemptions.append(sum(isinstance(one, PreemptJob) for one in decisions))
        moves = (PreemptJob, ClaimPlacement, StartJob)
        self.moves.append(sum(isinstance(one, moves) for one in decisions))
        for job_id in harness.stop_requested():
            harness.preempted(job_id)
        harness.start_all().advance(MINUTE_MS)

    def run(self) -> OrderCount:
        while len(self.preemptions) < CYCLES:
            self.cycle()
        return self


def require_bounded(count: OrderCount, budget: int) -> None:
    assert sum(count.preemptions) <= budget * len(count.runner.submitted)
    assert not any(count.moves[-QUIET:])


@settings(max_examples=FEW)
@given(contests(LIMITED))
def test_preemptions_stay_within_the_budgets_and_then_end(contest: Contest) -> None:
    require_bounded(
        OrderCount(contest).run(), contest.world.policies.preemption.preemptions_per_job
    )


def preemption_loop(budget: int) -> Contest:
    """A small job wins by fair share what an older job of its own queue then takes from it.

    That gives its queue more than before, so that its first victim may take from it in turn.
    """
    eager = replace(EAGER, borrow_while_reclaiming=None)
    above = {"q0": "mid", "q1": "top", "q2": "top", "q3": "mid"}
    fair = (FairStrategy.LESS_THAN_INITIAL_SHARE,)
    limits = PreemptionLimits(fair_strategies=fair, minimum_run_ms=0, preemptions_per_job=budget)
    quota = {"a100-80gb/owned": 2.0}
    world = World(
        fleet=fleet_of(pool("p0", 2, gpus=4)),
        tenants=(
            tenant("top"),
            tenant("mid", "top"),
            *(queue(name, parent, quota, preemption=eager) for name, parent in above.items()),
        ),
        policies=Policies(preemption=limits),
    )
    large, other = job("large", gpus=4, queue="q0"), job("other", gpus=4, queue="q1")
    small = job("small", gpus=1, queue="q0")
    return Contest(world=world, jobs=((0, large), (0, large), (0, other), (1, small)))


@pytest.mark.parametrize("budget", [1, 3, 10])
def test_only_the_budget_ends_combined_in_queue_and_fair_preemption(budget: int) -> None:
    count = OrderCount(preemption_loop(budget)).run()
    require_bounded(count, budget)
    assert sum(count.preemptions) > budget

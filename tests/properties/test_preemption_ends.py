"""Preemption comes to an end: no world keeps stopping and starting the same jobs for ever."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from bursar.model.decision import ClaimRoom, PreemptJob, StartJob
from bursar.model.job import JobSpec
from bursar.model.policy import PreemptionLimits
from bursar.model.units import MINUTE_MS
from tests.properties.plays import Play
from tests.properties.worlds import STRATEGIES, VICTIM_ORDERS, World, brief, contested_worlds, specs

CYCLES = 1_000
QUIET = 100
FEW = max(6, settings.default.max_examples // 10)


def eager_limits(budget: st.SearchStrategy[int]) -> st.SearchStrategy[PreemptionLimits]:
    return st.builds(
        PreemptionLimits,
        victim_order=VICTIM_ORDERS,
        fair_strategies=STRATEGIES,
        minimum_run_ms=st.just(0),
        preemptions_per_job=budget,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fight:
    """A contested world and the jobs that come to it, so many cycles apart."""

    world: World
    jobs: tuple[tuple[int, JobSpec], ...]

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:
        printer.text(f"{brief(self.world)}\n" + "\n".join(brief(one) for one in self.jobs))


@st.composite
def fights(draw: st.DrawFn, budget: st.SearchStrategy[int]) -> Fight:
    world = draw(contested_worlds(eager_limits(budget)))
    jobs = draw(st.lists(st.tuples(st.integers(0, 3), specs(world)), min_size=4, max_size=10))
    endless = tuple((wait, replace(spec, max_run_ms=None)) for wait, spec in jobs)
    return Fight(world=world, jobs=endless)


class Count:
    """Orders of a fight, cycle by cycle; no job of it ever ends by itself."""

    def __init__(self, fight: Fight) -> None:
        self.play = Play(fight.world)
        self.preemptions: list[int] = []
        self.moves: list[int] = []
        for wait, spec in fight.jobs:
            for _ in range(wait):
                self.cycle()
            self.play.submit(spec)

    def cycle(self) -> None:
        stage = self.play.stage
        decisions = self.play.cycle()
        self.preemptions.append(sum(isinstance(one, PreemptJob) for one in decisions))
        moves = (PreemptJob, ClaimRoom, StartJob)
        self.moves.append(sum(isinstance(one, moves) for one in decisions))
        for job_id in stage.told_to_stop():
            stage.preempted(job_id)
        stage.start_all().advance(MINUTE_MS)

    def run(self) -> Count:
        while len(self.preemptions) < CYCLES:
            self.cycle()
        return self


@settings(max_examples=FEW)
@given(fights(st.integers(1, 3)))
def test_preemptions_are_within_the_budgets_and_then_there_is_quiet(fight: Fight) -> None:
    count = Count(fight).run()
    budget = fight.world.policies.preemption.preemptions_per_job
    assert sum(count.preemptions) <= budget * len(count.play.submitted)
    assert not any(count.moves[-QUIET:])

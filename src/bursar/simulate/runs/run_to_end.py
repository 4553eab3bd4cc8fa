"""Follow a simulation to its end, or until whoever watches has seen enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bursar.gc_tuning import rare_gc_in_a_run
from bursar.model.event import Event, JobSubmitted
from bursar.simulate.metrics import RunMetrics
from bursar.simulate.scenario import Scenario
from bursar.simulate.simulation import Simulation

STEPS_BETWEEN_LOOKS = 64
"""Often enough that a stop is felt at once, seldom enough to cost nothing."""

Listener = Callable[[Iterable[Event]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a run is."""

    jobs_over: int
    jobs_in_all: int | None
    now_ms: int


class RunWatcher(Protocol):
    """Whoever looks on while a run goes."""

    def saw(self, progress: RunProgress) -> bool:
        """Told now and then; true asks the run to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run that is over or was stopped, and what was measured until then."""

    measures: RunMetrics
    jobs_over: int
    complete: bool


def follow(
    scenario: Scenario,
    jobs_in_all: int | None,
    watch: RunWatcher | None = None,
    listeners: Sequence[Listener] = (),
) -> RunResult:
    """Take every step, measure it, and tell those who listen what happened in it."""
    with rare_gc_in_a_run():
        return _follow(scenario, jobs_in_all, watch, listeners)


def _follow(
    scenario: Scenario,
    jobs_in_all: int | None,
    watch: RunWatcher | None,
    listeners: Sequence[Listener],
) -> RunResult:
    simulation = Simulation(scenario)
    measures = RunMetrics(simulation.state)
    submitted = 0
    complete = True
    for number, step in enumerate(simulation.steps(), start=1):
        measures.note(step)
        submitted += sum(type(event) is JobSubmitted for event in step.events)
        for listen in listeners:
            listen(step.events)
            listen(step.committed)
        if watch is not None and number % STEPS_BETWEEN_LOOKS == 0:
            over = submitted - len(simulation.state.jobs)
            progress = RunProgress(jobs_over=over, jobs_in_all=jobs_in_all, now_ms=step.now_ms)
            if watch.saw(progress):
                complete = False
                break
    over = submitted - len(simulation.state.jobs)
    return RunResult(measures=measures, jobs_over=over, complete=complete)

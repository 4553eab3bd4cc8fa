"""Follow a simulation to its end, or until whoever watches has seen enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bursar.model.event import Event, JobSubmitted
from bursar.simulate.collector import seldom_collecting
from bursar.simulate.loop import Simulation
from bursar.simulate.measures import Measures
from bursar.simulate.scenario import Scenario

STEPS_BETWEEN_LOOKS = 64
"""Often enough that a stop is felt at once, seldom enough to cost nothing."""

Listener = Callable[[Iterable[Event]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is."""

    jobs_over: int
    jobs_in_all: int | None
    now_ms: int


class Watch(Protocol):
    """Whoever looks on while a run goes."""

    def saw(self, progress: Progress) -> bool:
        """Told now and then; true asks the run to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A run that is over or was stopped, and what was measured until then."""

    measures: Measures
    jobs_over: int
    complete: bool


def follow(
    scenario: Scenario,
    jobs_in_all: int | None,
    watch: Watch | None = None,
    listeners: Sequence[Listener] = (),
) -> Followed:
    """Take every step, measure it, and tell those who listen what happened in it."""
    with seldom_collecting():
        return _follow(scenario, jobs_in_all, watch, listeners)


def _follow(
    scenario: Scenario,
    jobs_in_all: int | None,
    watch: Watch | None,
    listeners: Sequence[Listener],
) -> Followed:
    simulation = Simulation(scenario)
    measures = Measures(simulation.state)
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
            progress = Progress(jobs_over=over, jobs_in_all=jobs_in_all, now_ms=step.now_ms)
            if watch.saw(progress):
                complete = False
                break
    over = submitted - len(simulation.state.jobs)
    return Followed(measures=measures, jobs_over=over, complete=complete)

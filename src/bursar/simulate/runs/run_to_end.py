"""Runs a simulation to its end, or until its watcher stops it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bursar.gc_tuning import rare_gc_in_a_run
from bursar.model.event import Event, JobSubmitted
from bursar.simulate.metrics import RunMetrics
from bursar.simulate.parallel_tasks import Progress, Watch
from bursar.simulate.scenario import Scenario
from bursar.simulate.simulation import Simulation

STEPS_BETWEEN_REPORTS = 64
"""Often enough to stop at once, rarely enough to cost nothing."""

Listener = Callable[[Iterable[Event]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The metrics of a run that ended or was stopped."""

    metrics: RunMetrics
    jobs_over: int
    complete: bool


@rare_gc_in_a_run()
def run_to_end(
    scenario: Scenario,
    jobs_in_all: int | None,
    watch: Watch | None = None,
    listeners: Sequence[Listener] = (),
) -> RunResult:
    """Takes every step, measures it, and passes its events to the listeners."""
    simulation = Simulation(scenario)
    metrics = RunMetrics(simulation.state)
    submitted = 0
    complete = True
    for number, step in enumerate(simulation.steps(), start=1):
        metrics.note(step)
        submitted += sum(type(event) is JobSubmitted for event in step.events)
        for listen in listeners:
            listen(step.events)
            listen(step.committed)
        if watch is not None and number % STEPS_BETWEEN_REPORTS == 0:
            over = submitted - len(simulation.state.jobs)
            if watch([Progress(jobs_over=over, jobs_in_all=jobs_in_all)]):
                complete = False
                break
    over = submitted - len(simulation.state.jobs)
    return RunResult(metrics=metrics, jobs_over=over, complete=complete)

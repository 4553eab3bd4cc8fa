"""One run from a request to its outcome. It can be watched, and stopped between two steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from bursar.model.errors import UserError
from bursar.model.event import Event, JobSubmitted
from bursar.simulate.event_log import RecordedRun, write_events, write_run
from bursar.simulate.from_trace import Remarks, as_scenario
from bursar.simulate.learned import Predictor
from bursar.simulate.loop import Simulation
from bursar.simulate.measures import Measures
from bursar.simulate.policies import Estimates, PolicyChoice, choose_policy
from bursar.simulate.scenario import Scenario
from bursar.simulate.study.fault_names import choose_faults
from bursar.simulate.study.outcome import SHOWN, RunOutcome
from bursar.simulate.study.request import RunRequest
from bursar.simulate.study.submissions import pinned, with_slices
from bursar.simulate.study.workload import Workload, open_workload

STEPS_BETWEEN_LOOKS = 64
"""Often enough that a stop is felt at once, seldom enough to cost nothing."""


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
class PreparedRun:
    """A run in which nothing has happened yet; all that could be wrong with its input is known."""

    request: RunRequest
    workload: Workload
    scenario: Scenario
    remarks: Remarks
    predictor: Predictor | None

    def carry_out(self, watch: Watch | None = None) -> RunOutcome:
        """Run to the end, or until whoever watches has seen enough."""
        simulation = Simulation(self.scenario)
        measures = Measures(simulation.state)
        submitted = steps = 0
        complete = True
        with _recording(self.request, self.scenario) as record:
            listeners = self._listeners(record)
            for step in simulation.steps():
                measures.note(step)
                submitted += sum(type(event) is JobSubmitted for event in step.events)
                for listen in listeners:
                    listen(step.events)
                    listen(step.committed)
                steps += 1
                if watch is not None and steps % STEPS_BETWEEN_LOOKS == 0:
                    over = submitted - len(simulation.state.jobs)
                    if watch.saw(self._progress(over, step.now_ms)):
                        complete = False
                        break
        over = submitted - len(simulation.state.jobs)
        return self._outcome(measures, over, complete=complete)

    def _listeners(self, record: _Listener | None) -> list[_Listener]:
        learn = None if self.predictor is None else self.predictor.follow_all
        return [listen for listen in (learn, record) if listen is not None]

    def _progress(self, over: int, now_ms: int) -> Progress:
        return Progress(jobs_over=over, jobs_in_all=self.workload.count, now_ms=now_ms)

    def _outcome(self, measures: Measures, over: int, *, complete: bool) -> RunOutcome:
        request, workload, left_out = self.request, self.workload, self.remarks.left_out
        return RunOutcome(
            summary=measures.summary(request.name),
            series=measures.series(),
            source=request.source,
            policy=choose_policy(request.policy, request.fleet.policies).name,
            fleet=request.fleet.name,
            gpus=request.fleet.gpus,
            complete=complete,
            jobs_over=over,
            jobs_in_all=workload.count,
            bad_rows=workload.bad_rows[:SHOWN],
            bad_row_count=len(workload.bad_rows),
            left_out=tuple(left_out[:SHOWN]),
            left_out_count=len(left_out),
            notes=(*workload.notes, *self.remarks.notes),
        )


def prepare(request: RunRequest) -> PreparedRun:
    """Read, choose and put together what the request names; whatever is wrong is a ``UserError``."""
    fleet = request.fleet
    choice = choose_policy(request.policy, fleet.policies)
    faults = choose_faults(request.faults, request.seed)
    workload = open_workload(request.jobs())
    predictor = Predictor() if choice.estimates is Estimates.LEARNED else None
    run = as_scenario(
        workload.jobs if predictor is None else workload.learning(predictor),
        fleet.fleet,
        fleet.tenants,
        choice.policies,
        request.workload.mapping(choice.estimates, fleet.fleet),
    )
    scenario = _settled(run.scenario, choice, request)
    return PreparedRun(
        request=request,
        workload=workload,
        scenario=replace(scenario, faults=faults),
        remarks=run.remarks,
        predictor=predictor,
    )


def _settled(scenario: Scenario, choice: PolicyChoice, request: RunRequest) -> Scenario:
    """The scenario with the policy's queues, the request's delays, and jobs in their place."""
    events: Iterable[Event] = scenario.events
    if request.workload.pin_label is not None:
        events = pinned(events, request.workload.pin_label)
    if request.workload.parts_are_slices:
        events = with_slices(events, scenario.fleet)
    return replace(
        scenario,
        tenants=choice.tenants(scenario.tenants),
        delays=request.delays,
        events=events,
    )


# -- the run's own log -------------------------------------------------------------------------------

_Listener = Callable[[Iterable[Event]], None]


@contextmanager
def _recording(request: RunRequest, scenario: Scenario) -> Iterator[_Listener | None]:
    """Where the events of the run are written, if anywhere."""
    if request.log is None:
        yield None
        return
    try:
        file = request.log.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(
            f"{request.log} cannot be written: {error.strerror or error}.",
            fix="Name a file in a folder that exists and that you may write to.",
            code="cannot-write",
        ) from error
    with file:
        header = RecordedRun(
            fleet=scenario.fleet, tenants=scenario.tenants, policies=scenario.policies, events=()
        )
        write_run(header, file)

        def record(events: Iterable[Event]) -> None:
            write_events(events, file)

        yield record

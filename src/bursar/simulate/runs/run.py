"""One run from a request to its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bursar.gc_tuning import rare_gc_in_a_run
from bursar.model.errors import UserError
from bursar.simulate.named_policies import RunTimeSource, choose_policy
from bursar.simulate.parallel_tasks import Watch
from bursar.simulate.runs.fault_options import choose_faults
from bursar.simulate.runs.run_outcome import SHOWN, RunOutcome
from bursar.simulate.runs.run_request import RunRequest
from bursar.simulate.runs.run_to_end import Listener, RunResult, run_to_end
from bursar.simulate.runs.workload_source import Workload, open_workload
from bursar.simulate.scenario import Scenario
from bursar.simulate.workload.event_log import RecordedRun, write_events, write_run
from bursar.simulate.workload.run_time_predictor import Predictor
from bursar.simulate.workload.trace_scenario import Remarks, as_scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run that has not begun; its input is validated."""

    request: RunRequest
    workload: Workload
    scenario: Scenario
    remarks: Remarks
    predictor: Predictor | None

    def carry_out(self, watch: Watch | None = None) -> RunOutcome:
        """Runs to the end, or until the watcher stops it."""
        with _recording(self.request, self.scenario) as record:
            result = run_to_end(self.scenario, self.workload.count, watch, self._listeners(record))
        return self._outcome(result)

    def _listeners(self, record: Listener | None) -> list[Listener]:
        learn = None if self.predictor is None else self.predictor.apply_all
        return [listen for listen in (learn, record) if listen is not None]

    def _outcome(self, result: RunResult) -> RunOutcome:
        request, workload, left_out = self.request, self.workload, self.remarks.left_out
        return RunOutcome(
            summary=result.metrics.summary(request.name),
            series=result.metrics.series(),
            source=request.source,
            policy=choose_policy(request.policy, request.fleet.policies).name,
            fleet=request.fleet.name,
            gpus=request.fleet.gpus,
            complete=result.complete,
            jobs_over=result.jobs_over,
            jobs_in_all=workload.count,
            bad_rows=workload.bad_rows[:SHOWN],
            bad_row_count=len(workload.bad_rows),
            left_out=tuple(left_out[:SHOWN]),
            left_out_count=len(left_out),
            notes=(*workload.notes, *self.remarks.notes),
        )


def prepare_and_run(request: RunRequest, watch: Watch) -> RunOutcome:
    """Prepares a run and carries it out."""
    return prepare(request).carry_out(watch)


@rare_gc_in_a_run()
def prepare(request: RunRequest) -> PreparedRun:
    """Reads and validates everything that a request names; a mistake is a ``UserError``."""
    fleet = request.fleet
    choice = choose_policy(request.policy, fleet.policies)
    faults = choose_faults(request.faults, request.seed, fleet.fleet)
    workload = open_workload(request.jobs())
    predictor = Predictor() if choice.estimates is RunTimeSource.LEARNED else None
    run = as_scenario(
        workload.jobs if predictor is None else workload.learning(predictor),
        fleet.fleet,
        fleet.tenants,
        choice.policies,
        replace(request.mapping, estimate=choice.estimates),
    )
    scenario = replace(
        run.scenario,
        tenants=choice.tenants(run.scenario.tenants),
        delays=request.delays,
        faults=faults,
    )
    return PreparedRun(
        request=request,
        workload=workload,
        scenario=scenario,
        remarks=run.remarks,
        predictor=predictor,
    )


# -- the event log of the run ------------------------------------------------------------------------


@contextmanager
def _recording(request: RunRequest, scenario: Scenario) -> Iterator[Listener | None]:
    """A listener that writes the events of the run to the requested log, if any."""
    if request.log is None:
        yield None
        return
    header = RecordedRun(
        fleet=scenario.fleet, tenants=scenario.tenants, policies=scenario.policies, events=()
    )
    try:
        with request.log.open("w", encoding="utf-8", newline="\n") as file:
            write_run(header, file)
            yield lambda events: write_events(events, file)
    except OSError as error:
        raise UserError(
            f"{request.log} cannot be written: {error.strerror or error}.",
            fix="Name a file in a writable folder with free space.",
            code="cannot-write",
        ) from error

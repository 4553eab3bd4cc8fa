"""Runs a recorded history twice: as recorded, and with changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bursar.core.admission.admit import check_fleet
from bursar.model.event import (
    Event,
    ForeignUsageSeen,
    JobSubmitted,
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeRestored,
    SpotNotice,
    TenantChanged,
)
from bursar.model.tenants.tenant import Tenant
from bursar.simulate.named_policies import RunTimeSource
from bursar.simulate.parallel_tasks import Watch
from bursar.simulate.runs.fleet_overrides import change
from bursar.simulate.runs.run_outcome import RunOutcome
from bursar.simulate.runs.run_request import FleetChoice
from bursar.simulate.runs.run_to_end import run_to_end
from bursar.simulate.scenario import Scenario
from bursar.simulate.workload.event_log import read_run
from bursar.simulate.workload.recorded_work import History, read_history
from bursar.simulate.workload.run_time_predictor import Predictor

AS_RECORDED = "as recorded"
CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Both runs, prepared."""

    source: str
    history: History
    before: FleetChoice
    after: FleetChoice
    changes: tuple[str, ...]

    def carry_out(self, watch: Watch | None = None) -> tuple[RunOutcome, ...]:
        """The run as recorded, then the changed one, unless the first was stopped."""
        first = self._run(self.before, (), watch)
        if not first.complete:
            return (first,)
        return first, self._run(self.after, self.changes, watch)

    def _run(self, fleet: FleetChoice, changes: tuple[str, ...], watch: Watch | None) -> RunOutcome:
        history = self.history
        predictor = Predictor()
        scenario = Scenario(
            fleet=fleet.fleet,
            tenants=fleet.tenants,
            policies=fleet.policies,
            events=self._events(fleet, changes, predictor),
            run_ms=history.run_ms,
            delays=history.delays,
        )
        result = run_to_end(scenario, history.jobs, watch, (predictor.apply_all,))
        return RunOutcome(
            summary=result.metrics.summary(fleet.name),
            series=result.metrics.series(),
            source=self.source,
            policy=", ".join(changes) or AS_RECORDED,
            fleet=fleet.name,
            gpus=fleet.gpus,
            complete=result.complete,
            jobs_over=result.jobs_over,
            jobs_in_all=history.jobs,
            notes=history.notes,
        )

    def _events(
        self, fleet: FleetChoice, changes: tuple[str, ...], predictor: Predictor
    ) -> Iterator[Event]:
        """The external events, adapted to the changed fleet."""
        removed = _nodes(self.before) - _nodes(fleet)
        for event in self.history.events:
            match event:
                case NodeAdded(node=node) if node.id in removed:
                    continue
                case (
                    NodeDrained() | NodeRestored() | NodeLost() | SpotNotice() | ForeignUsageSeen()
                ):
                    if event.node not in removed:
                        yield event
                case TenantChanged(tenant=tenant):
                    yield replace(event, tenant=_changed_tenant(tenant, fleet, changes))
                case JobSubmitted():
                    yield self._with_estimate(event, fleet.estimates, predictor)
                case _:
                    yield event

    def _with_estimate(
        self, event: JobSubmitted, estimates: RunTimeSource, predictor: Predictor
    ) -> JobSubmitted:
        """The job with the run time estimate that the policy uses."""
        if estimates is RunTimeSource.WRITTEN:
            return event
        run_ms = self.history.run_ms[event.job_id]
        if estimates is RunTimeSource.LEARNED:
            return predictor.guess_submitted(event, run_ms)
        known_ms = run_ms if estimates is RunTimeSource.ORACLE else None
        return replace(event, spec=replace(event.spec, expected_run_ms=known_ms))


def prepare_whatif(path: str | Path, changes: Sequence[str]) -> WhatIf:
    """Reads a log, and applies the changes to the fleet in its header."""
    recorded = read_run(Path(path))
    before = FleetChoice(
        name=AS_RECORDED,
        fleet=recorded.fleet,
        tenants=recorded.tenants,
        policies=recorded.policies,
    )
    after = replace(before, name=CHANGED)
    for text in changes:
        after = change(after, text)
    check_fleet(after.fleet, after.tenants, after.policies)
    return WhatIf(
        source=str(path),
        history=read_history(recorded.events),
        before=before,
        after=after,
        changes=tuple(changes),
    )


def _changed_tenant(tenant: Tenant, fleet: FleetChoice, changes: Sequence[str]) -> Tenant:
    """Applies the changes to a tenant that was changed during the run."""
    others = tuple(one for one in fleet.tenants if one.name != tenant.name)
    now = replace(fleet, tenants=(tenant, *others))
    for text in changes:
        now = change(now, text)
    return now.tenants[0]


def _nodes(fleet: FleetChoice) -> frozenset[str]:
    return frozenset(node.id for node in fleet.fleet.nodes)

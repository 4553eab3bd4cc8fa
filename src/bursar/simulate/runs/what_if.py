"""Runs a recorded history twice: as recorded, and with changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from bursar.simulate.runs.fleet_overrides import Setting, change
from bursar.simulate.runs.run_outcome import RunOutcome
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
    before: Setting
    after: Setting
    changes: tuple[str, ...]

    def carry_out(self, watch: Watch | None = None) -> tuple[RunOutcome, ...]:
        """The run as recorded, then the changed one, unless the first was stopped."""
        first = self._run(AS_RECORDED, self.before, (), watch)
        if not first.complete:
            return (first,)
        return first, self._run(CHANGED, self.after, self.changes, watch)

    def _run(
        self, name: str, setting: Setting, changes: tuple[str, ...], watch: Watch | None
    ) -> RunOutcome:
        history = self.history
        removed = _nodes(self.before) - _nodes(setting)
        predictor = Predictor()
        scenario = Scenario(
            fleet=setting.fleet,
            tenants=setting.tenants,
            policies=setting.policies,
            events=_as_changed(
                history, setting, _Change(texts=changes, removed=removed, predictor=predictor)
            ),
            run_ms=history.run_ms,
            delays=history.delays,
        )
        result = run_to_end(scenario, history.jobs, watch, (predictor.apply_all,))
        return RunOutcome(
            summary=result.metrics.summary(name),
            series=result.metrics.series(),
            source=self.source,
            policy=", ".join(changes) or AS_RECORDED,
            fleet=name,
            gpus=_gpus(setting),
            complete=result.complete,
            jobs_over=result.jobs_over,
            jobs_in_all=history.jobs,
            notes=history.notes,
        )


def prepare_whatif(path: str | Path, changes: Sequence[str]) -> WhatIf:
    """Reads a log, and applies the changes to the fleet in its header."""
    recorded = read_run(Path(path))
    before = Setting(fleet=recorded.fleet, tenants=recorded.tenants, policies=recorded.policies)
    after = before
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The changes of a run, and its run time predictor."""

    texts: tuple[str, ...]
    removed: frozenset[str]
    predictor: Predictor


def _as_changed(history: History, setting: Setting, changes: _Change) -> Iterator[Event]:
    """The external events, adapted to the changed fleet."""
    estimates = RunTimeSource.WRITTEN if setting.choice is None else setting.choice.estimates
    for event in history.events:
        match event:
            case NodeAdded(node=node) if node.id in changes.removed:
                continue
            case NodeDrained() | NodeRestored() | NodeLost() | SpotNotice() | ForeignUsageSeen():
                if event.node not in changes.removed:
                    yield event
            case TenantChanged(tenant=tenant):
                yield replace(event, tenant=_changed_tenant(tenant, setting, changes.texts))
            case JobSubmitted() if estimates is RunTimeSource.LEARNED:
                yield changes.predictor.guess_submitted(event, history.run_ms[event.job_id])
            case JobSubmitted():
                yield _with_estimate(event, estimates, history.run_ms)
            case _:
                yield event


def _changed_tenant(tenant: Tenant, setting: Setting, changes: Sequence[str]) -> Tenant:
    """Applies the changes to a tenant that was changed during the run."""
    others = tuple(one for one in setting.tenants if one.name != tenant.name)
    now = replace(setting, tenants=(tenant, *others))
    for text in changes:
        now = change(now, text)
    return now.tenants[0]


def _with_estimate(
    event: JobSubmitted, estimates: RunTimeSource, run_ms: Mapping[str, int]
) -> JobSubmitted:
    """The job with the run time estimate that the policy uses."""
    if estimates is RunTimeSource.WRITTEN:
        return event
    known_ms = run_ms[event.job_id] if estimates is RunTimeSource.ORACLE else None
    return replace(event, spec=replace(event.spec, expected_run_ms=known_ms))


def _nodes(setting: Setting) -> frozenset[str]:
    return frozenset(node.id for node in setting.fleet.nodes)


def _gpus(setting: Setting) -> int:
    per_node = {pool.name: pool.gpus_per_node for pool in setting.fleet.pools}
    return sum(per_node[node.pool] for node in setting.fleet.nodes)

"""The metrics of a run: a fold over its steps; a step costs what it changes.

Memory grows with the live jobs, and by a few bytes for each finished one.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

from bursar.core.state.fleet_state import FleetState
from bursar.model import event as ev
from bursar.model.jobs.attempt import Placement
from bursar.simulate.metrics.cost import CostMeter
from bursar.simulate.metrics.cycle_times import CycleTimes
from bursar.simulate.metrics.fairness import FairnessMeter
from bursar.simulate.metrics.gpu_capacity import GpuMeters
from bursar.simulate.metrics.gpu_occupancy import GpuOccupancy, OccupancySpan
from bursar.simulate.metrics.live_jobs import FinishedJobTotals, GpuDemand, LiveJob
from bursar.simulate.metrics.outcomes import OutcomeCounts
from bursar.simulate.metrics.samples import Row, Samples, series_of
from bursar.simulate.metrics.series import Series
from bursar.simulate.metrics.summarise import RunTotals, summarise, wait_quantiles
from bursar.simulate.metrics.summary import Summary
from bursar.simulate.metrics.teams import TeamAccounts
from bursar.simulate.metrics.time_integral import TimeIntegral
from bursar.simulate.simulation import Step

Ended = ev.AttemptPreempted | ev.AttemptSucceeded | ev.AttemptFailed | ev.NodeLost
NodeEvent = ev.NodeDrained | ev.NodeRestored | ev.SpotNotice | ev.ForeignUsageSeen


class RunMetrics:
    """Counts the steps of one run; ``state`` is that of the same run.

    Each step must be noted before the next is taken: free capacity is read from the state.
    """

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self._jobs: dict[str, LiveJob] = {}
        self._dependents: dict[str, list[str]] = {}
        self._accounts = TeamAccounts(state.tenants)
        self._demand = GpuDemand(pool.spec for pool in state.pools.values())
        self._gpus = GpuMeters(state)
        self._cost = CostMeter(state)
        self._waiting = TimeIntegral()
        self._finished = FinishedJobTotals()
        self._counts = OutcomeCounts()
        self._fairness = FairnessMeter(self._accounts)
        self._samples = Samples(self._gpus, self._waiting, self._cost, self._accounts)
        self._occupancy = GpuOccupancy(
            [
                (node.id, pool.spec.gpus_per_node)
                for _, pool in sorted(state.pools.items())
                for node in pool.nodes
            ]
        )
        self._cycles = CycleTimes()
        self._began_ms: int | None = None
        self._ended_ms = 0
        self._next_ms = 0
        self._last_row: Row | None = None
        self._appliers: dict[type, Callable[..., None]] = self._appliers_by_type()

    def note(self, step: Step) -> None:
        """Counts one step."""
        if step.cycle_ns is not None:
            self._cycles.add(step.cycle_ns)
        events, committed = step.events, step.committed
        if not events and not committed:
            return
        now_ms = step.now_ms
        if self._began_ms is None:
            if not any(isinstance(event, ev.JobSubmitted) for event in events):
                self._before_the_first_job(events)
                return
            self._begin(now_ms)
        elif now_ms >= self._next_ms:
            self._advance_to(now_ms)
        alive = bool(self._jobs)
        appliers = self._appliers
        for event in events:
            apply = appliers.get(type(event))
            if apply is not None:
                apply(event)
        for event in committed:
            apply = appliers.get(type(event))
            if apply is not None:
                apply(event)
        gpus = self._gpus
        if gpus.touched:
            gpus.update_free(now_ms)
        unallocated = gpus.free.rate if self._waiting.rate else 0
        if unallocated != gpus.unallocated.rate:
            gpus.unallocated.set(unallocated, now_ms)
        if alive or self._jobs:
            self._ended_ms = now_ms

    # -- reading ---------------------------------------------------------------------------------

    def summary(self, name: str = "run") -> Summary:
        """The numbers of the run so far."""
        end = self._end()
        self._fairness.close(end[0])
        totals = RunTotals(
            began_ms=self._began_ms or 0,
            end=end,
            jobs=self._jobs,
            accounts=self._accounts,
            finished=self._finished,
            counts=self._counts,
            fairness=self._fairness.result(end[0]),
            cycles=self._cycles.summary(),
        )
        return summarise(name, totals)

    def series(self) -> Series:
        """The curves of the run so far."""
        end = self._end()
        rows = self._samples.rows_until(end)
        names = [account.name for account in self._accounts.all]
        occupancy = deepcopy(self._occupancy)
        for job in self._jobs.values():
            if job.placement is not None:
                occupancy.add(job.placement, job.team.index, job.assigned_ms, end[0])
        return replace(
            series_of(rows, names, self._samples.width_ms),
            wait_quantiles_ms=wait_quantiles(self._finished.wait_ms),
            gantt=occupancy.chart(OccupancySpan(self._began_ms or 0, end[0]), names),
        )

    def _end(self) -> Row:
        """All integrals at the end of the run; time without live jobs after it is not counted."""
        if self._last_row is not None:
            return self._last_row
        return self._samples.read(self._ended_ms)

    # -- time ------------------------------------------------------------------------------------

    def _begin(self, now_ms: int) -> None:
        self._began_ms = self._ended_ms = now_ms
        self._gpus.recount(now_ms)
        self._cost.recount(now_ms)
        self._samples.begin(now_ms)
        self._fairness.begin(now_ms)
        self._next_ms = min(self._samples.next_ms, self._fairness.next_ms)

    def _advance_to(self, now_ms: int) -> None:
        """Takes the samples and closes the windows that are due, before anything changes."""
        if now_ms >= self._samples.next_ms:
            self._samples.advance_to(now_ms)
        if now_ms >= self._fairness.next_ms:
            self._fairness.advance_to(now_ms)
        self._next_ms = min(self._samples.next_ms, self._fairness.next_ms)

    def _before_the_first_job(self, events: tuple[ev.Event, ...]) -> None:
        """Before the first submission only new nodes and tenants matter; nothing is measured."""
        for event in events:
            if isinstance(event, ev.NodeAdded):
                self._chart_node(event.node.id, event.node.pool)
            elif isinstance(event, ev.TenantChanged):
                self._accounts.tenants_changed()

    # -- jobs ------------------------------------------------------------------------------------

    def _submitted(self, event: ev.JobSubmitted) -> None:
        self._last_row = None
        spec = event.spec
        team = self._accounts.of(spec.queue)
        team.submitted += 1
        job = LiveJob(event, team, self._demand.milli(spec))
        self._jobs[event.job_id] = job
        for dependency in spec.depends_on:
            self._dependents.setdefault(dependency, []).append(event.job_id)
        if not spec.depends_on or event.job_id not in self._state.blocked:
            self._enqueue(job, event.at_ms)

    def _enqueue(self, job: LiveJob, at_ms: int) -> None:
        job.since_ms = at_ms
        self._waiting.change(1, at_ms)
        job.team.waiting.change(job.wanted_milli, at_ms)

    def _dequeue(self, job: LiveJob, at_ms: int) -> None:
        self._waiting.change(-1, at_ms)
        job.team.waiting.change(-job.wanted_milli, at_ms)

    def _assigned(self, event: ev.AttemptAssigned) -> None:
        job, at_ms, placement = self._jobs[event.job_id], event.at_ms, event.placement
        gpu_milli = 0
        group: Placement | None = placement
        while group is not None:
            pool = self._state.pools[group.pool].spec
            for task in group.tasks:
                gpu_milli += self._gpus.hold(task, pool.gpu_model, at_ms)
            self._cost.allocated[pool.market].change(group.micro_usd_per_hour, at_ms)
            group = group.anchors
        if job.since_ms is not None:
            self._dequeue(job, at_ms)
        job.assign(placement, event.attempt, gpu_milli, at_ms)
        job.team.held.change(gpu_milli, at_ms)

    def _started(self, event: ev.AttemptStarted) -> None:
        job = self._jobs.get(event.job_id)
        if job is not None and job.attempt == event.attempt and job.placement is not None:
            job.start(event.at_ms)

    def _saved(self, event: ev.CheckpointSaved) -> None:
        job = self._jobs.get(event.job_id)
        if job is not None and job.attempt == event.attempt and job.placement is not None:
            job.saved_ms = event.at_ms

    def _ended(self, event: ev.AttemptEnded) -> None:
        job = self._jobs.get(event.job_id)
        if job is not None and job.attempt == event.attempt and job.placement is not None:
            self._end_attempt(event.job_id, job, event)

    def _end_attempt(self, job_id: str, job: LiveJob, event: Ended) -> None:
        placement, at_ms = job.placement, event.at_ms
        assert placement is not None
        group: Placement | None = placement
        while group is not None:
            pool = self._state.pools[group.pool].spec
            for task in group.tasks:
                self._gpus.release(task, pool.gpu_model, at_ms)
            self._cost.allocated[pool.market].change(-group.micro_usd_per_hour, at_ms)
            group = group.anchors
        job.team.held.change(-job.gpu_milli, at_ms)
        self._occupancy.add(placement, job.team.index, job.assigned_ms, at_ms)
        self._counts.attempt_ended(job, _cause_of(event), at_ms)
        job.placement = None
        if job_id in self._state.jobs:
            self._enqueue(job, at_ms)
        else:
            self._finish(job_id, job, at_ms, succeeded=type(event) is ev.AttemptSucceeded)

    def _cancelled(self, event: ev.JobCancelled) -> None:
        job = self._jobs.get(event.job_id)
        if job is None:
            return
        job.cancelled = True
        if job.placement is None and event.job_id not in self._state.jobs:
            if job.since_ms is not None:
                self._dequeue(job, event.at_ms)
            self._finish(event.job_id, job, event.at_ms, succeeded=False)

    def _expired(self, event: ev.AttemptExpired) -> None:
        job = self._jobs.get(event.job_id)
        if job is not None and job.attempt == event.attempt:
            job.expired = True

    def _finish(self, job_id: str, job: LiveJob, at_ms: int, *, succeeded: bool) -> None:
        del self._jobs[job_id]
        succeeded = succeeded and not job.cancelled
        self._counts.job_ended(job, at_ms, succeeded=succeeded)
        if succeeded:
            self._finished.add(job, at_ms)
        for dependent in self._dependents.pop(job_id, ()):
            waiting = self._jobs.get(dependent)
            if waiting is not None and waiting.since_ms is None and waiting.placement is None:
                if dependent not in self._state.blocked:
                    waiting.ready_ms = at_ms
                    self._enqueue(waiting, at_ms)

    # -- the fleet -------------------------------------------------------------------------------

    def _node_lost(self, event: ev.NodeLost) -> None:
        """Ends the attempts on the node."""
        self._fleet_changed(event)
        lost = [
            (job_id, job)
            for job_id, job in self._jobs.items()
            if job.placement is not None
            and any(task.node == event.node for task in job.placement.all_tasks)
        ]
        for job_id, job in sorted(lost, key=lambda one: one[0]):
            self._end_attempt(job_id, job, event)

    def _node_added(self, event: ev.NodeAdded) -> None:
        self._fleet_changed(event)
        self._chart_node(event.node.id, event.node.pool)

    def _chart_node(self, node: str, pool: str) -> None:
        self._occupancy.add_node(node, self._state.pools[pool].spec.gpus_per_node)

    def _fleet_changed(self, event: ev.NodeAdded | ev.NodeLost | ev.PriceChanged) -> None:
        self._freeze_end()
        self._gpus.recount(event.at_ms)
        self._cost.recount(event.at_ms)

    def _node_changed(self, event: NodeEvent) -> None:
        self._freeze_end()
        self._gpus.touched.add(event.node)

    def _freeze_end(self) -> None:
        """Stores the integrals at the last job's end before the fleet changes without live jobs."""
        if not self._jobs and self._last_row is None:
            self._last_row = self._samples.read(self._ended_ms)

    def _tenant_changed(self, event: ev.TenantChanged) -> None:
        self._fairness.close(event.at_ms)
        self._accounts.tenants_changed()

    def _appliers_by_type(self) -> dict[type, Callable[..., None]]:
        """Which method counts which event; other events change nothing that is measured."""
        return {
            ev.JobSubmitted: self._submitted,
            ev.JobCancelled: self._cancelled,
            ev.AttemptAssigned: self._assigned,
            ev.AttemptStarted: self._started,
            ev.CheckpointSaved: self._saved,
            ev.AttemptExpired: self._expired,
            ev.AttemptPreempted: self._ended,
            ev.AttemptSucceeded: self._ended,
            ev.AttemptFailed: self._ended,
            ev.NodeAdded: self._node_added,
            ev.NodeLost: self._node_lost,
            ev.NodeDrained: self._node_changed,
            ev.NodeRestored: self._node_changed,
            ev.SpotNotice: self._node_changed,
            ev.ForeignUsageSeen: self._node_changed,
            ev.PriceChanged: self._fleet_changed,
            ev.TenantChanged: self._tenant_changed,
        }


def _cause_of(event: Ended) -> type:
    """The type of event that ended an attempt; an evacuation counts as a lost node."""
    if isinstance(event, ev.AttemptPreempted) and event.cause is ev.PreemptionCause.NOTICE:
        return ev.NodeLost
    return type(event)

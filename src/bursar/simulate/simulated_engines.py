"""The engines of a simulated fleet: they carry out orders and track the progress of jobs.

Each live attempt has exactly one event on the clock: its start, its next checkpoint, its end, its
failure or its stop. An order to stop replaces that event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, assert_never

from bursar.core.quota.charge import run_time_of
from bursar.model.decision import (
    ClaimPlacement,
    EvacuateJob,
    Order,
    PartitionGpu,
    PreemptJob,
    ReleaseClaim,
    StartJob,
    StopJob,
    StopReason,
)
from bursar.model.errors import BrokenInvariant
from bursar.model.event import (
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    Event,
    JobCancelled,
    JobSubmitted,
    NodeLost,
    PreemptionCause,
)
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec
from bursar.model.units import MILLI
from bursar.simulate.faults import AttemptFaults, Faults
from bursar.simulate.scenario import Delays
from bursar.simulate.virtual_clock import AT_MS, ITEM, Entry, VirtualClock

# A module-level name is faster than looking up a member of an enum.
_BY_ORDER: Final = PreemptionCause.ORDER


class _JobProgress:
    """The progress of a job. Unsaved work is lost when its attempt ends early."""

    __slots__ = ("has_run", "over", "run", "run_ms", "saved_ms", "spec")

    def __init__(self, spec: JobSpec, run_ms: int) -> None:
        self.spec = spec
        self.has_run = False
        self.over = False
        self.run_ms = run_ms
        self.saved_ms = 0
        self.run: _Run | None = None


class _Run:
    """A live attempt: since when its work is unsaved, and when it stops."""

    __slots__ = (
        "attempt",
        "cause",
        "entry",
        "fails_at_ms",
        "faults",
        "granted",
        "nodes",
        "since_ms",
        "stops_at_ms",
        "wanted",
    )

    def __init__(
        self, attempt: int, spec: JobSpec, placement: Placement, faults: AttemptFaults
    ) -> None:
        tasks, groups = placement.tasks, spec.groups
        self.attempt = attempt
        self.faults = faults
        if placement.anchors is not None:
            tasks = placement.all_tasks
        if len(tasks) == 1 == len(groups):
            self.nodes: Collection[str] = (tasks[0].node,)
            self.wanted = groups[0].count * faults.slow_milli
            self.granted = tasks[0].count * MILLI
        else:
            self.nodes = {task.node for task in tasks}
            self.wanted = sum(group.count for group in groups) * faults.slow_milli
            self.granted = sum(task.count for task in tasks) * MILLI
        self.since_ms: int | None = None
        self.fails_at_ms: int | None = None
        self.stops_at_ms: int | None = None
        self.cause = _BY_ORDER
        self.entry: Entry | None = None

    def begin(self, since_ms: int, work_left_ms: int) -> None:
        """The attempt makes progress from now on; if it will fail, the time is now fixed."""
        self.since_ms = since_ms
        if self.faults.fails_at_milli is not None:
            done_ms = work_left_ms * self.faults.fails_at_milli // MILLI
            self.fails_at_ms = since_ms + self.time_for(done_ms)

    def progress_ms(self, elapsed_ms: int) -> int:
        """Work done in a time: an elastic gang with half its tasks is half as fast."""
        return elapsed_ms * self.granted // self.wanted

    def time_for(self, work_ms: int) -> int:
        return -(-work_ms * self.wanted // self.granted)


class SimulatedEngines:
    """Carries out orders on a virtual clock."""

    def __init__(
        self,
        clock: VirtualClock,
        run_ms: Mapping[str, int],
        delays: Delays,
        faults: Faults | None = None,
    ) -> None:
        self._clock = clock
        self._run_ms = run_ms
        self._delays = delays
        self._faults = faults
        self._no_faults = AttemptFaults(start_ms=delays.start_ms)
        self._jobs: dict[str, _JobProgress] = {}
        self._jobs_by_node: dict[str, set[str]] | None = None
        self.appliers: dict[type, Callable[..., None]] = {
            JobSubmitted: self._submitted,
            JobCancelled: self._cancelled,
            AttemptStarted: self._started,
            CheckpointSaved: self._saved,
            AttemptSucceeded: self._succeeded,
            AttemptPreempted: self._stopped,
            AttemptFailed: self._stopped,
            NodeLost: self._node_lost,
        }

    # -- orders ----------------------------------------------------------------------------------

    def carry_out(self, order: Order) -> None:
        """Begins an order; its outcome becomes an event later."""
        match order:
            case StartJob():
                self._start(order)
            case PreemptJob(job_id=job_id):
                self._stop(job_id)
            case EvacuateJob(job_id=job_id, grace_ms=grace_ms):
                self._live(job_id)[1].cause = PreemptionCause.NOTICE
                self._stop(job_id, at_most_ms=grace_ms)
            case StopJob(job_id=job_id, reason=StopReason.BUDGET | StopReason.MOVE):
                self._stop(job_id)
            case StopJob(job_id=job_id):
                self._jobs[job_id].over = True
                self._stop(job_id)
            case ClaimPlacement() | ReleaseClaim() | PartitionGpu():
                pass
            case _:
                assert_never(order)

    # -- events ----------------------------------------------------------------------------------

    def _submitted(self, event: JobSubmitted) -> None:
        job_id, spec = event.job_id, event.spec
        self._jobs[job_id] = _JobProgress(spec, self._true_run_ms(job_id, spec))

    def _started(self, event: AttemptStarted) -> None:
        job_id = event.job_id
        work = self._jobs[job_id]
        run = work.run
        assert run is not None
        restart_ms = work.spec.checkpoint.restart_ms if work.has_run else 0
        work.has_run = True
        run.begin(event.at_ms + restart_ms, work.run_ms - work.saved_ms)
        self._schedule(job_id, work, run)

    def _saved(self, event: CheckpointSaved) -> None:
        work, run = self._live(event.job_id)
        assert run.since_ms is not None
        work.saved_ms += run.progress_ms(event.at_ms - run.since_ms)
        run.since_ms = event.at_ms
        self._schedule(event.job_id, work, run)

    def _succeeded(self, event: AttemptSucceeded) -> None:
        if self._jobs_by_node is not None:
            self._end_run(event.job_id)
        del self._jobs[event.job_id]

    def _stopped(self, event: AttemptPreempted | AttemptFailed) -> None:
        self._end_run(event.job_id)
        self._forget_if_over(event.job_id)

    def _cancelled(self, event: JobCancelled) -> None:
        if event.job_id in self._jobs:
            self._jobs[event.job_id].over = True
            self._forget_if_over(event.job_id)

    def forget(self, job_id: str) -> None:
        """Drops a job that has ended and will not be retried."""
        self._jobs.pop(job_id, None)

    def save_on(self, node: str) -> None:
        """Jobs on a node save a checkpoint now, if they save any."""
        now_ms = self._clock.now_ms
        for job_id in self._jobs_on(node):
            work, run = self._live(job_id)
            saves = work.spec.checkpoint.interval_ms is not None
            if saves and run.since_ms is not None and run.since_ms < now_ms:
                saved = CheckpointSaved(at_ms=now_ms, job_id=job_id, attempt=run.attempt)
                if run.entry is not None:
                    self._clock.drop(run.entry)
                run.entry = self._clock.push(saved)

    # -- attempts --------------------------------------------------------------------------------

    def _start(self, order: StartJob) -> None:
        job_id, attempt = order.job_id, order.attempt
        work = self._jobs[job_id]
        if work.run is not None:
            raise BrokenInvariant(f"{job_id}: attempt {attempt} starts while another is live")
        faults = self._no_faults
        if self._faults is not None:
            faults = self._faults.of_attempt(job_id, attempt, self._delays.start_ms)
        run = work.run = _Run(attempt, work.spec, order.placement, faults)
        if self._jobs_by_node is not None:
            self._add_to_nodes(job_id, run, self._jobs_by_node)
        at_ms = self._clock.now_ms + faults.start_ms
        started = AttemptStarted(at_ms=at_ms, job_id=job_id, attempt=attempt)
        run.entry = self._clock.push(started)

    def _end_run(self, job_id: str) -> None:
        work, run = self._live(job_id)
        if self._jobs_by_node is not None:
            for node in run.nodes:
                self._jobs_by_node[node].discard(job_id)
        work.run = None

    def _jobs_on(self, node: str) -> list[str]:
        """The jobs with an attempt on a node.

        The index is built at the first call: a run without outages never needs it.
        """
        if self._jobs_by_node is None:
            self._jobs_by_node = {}
            for job_id, work in self._jobs.items():
                if work.run is not None:
                    self._add_to_nodes(job_id, work.run, self._jobs_by_node)
        return sorted(self._jobs_by_node.get(node, ()))

    @staticmethod
    def _add_to_nodes(job_id: str, run: _Run, jobs_by_node: dict[str, set[str]]) -> None:
        for node in run.nodes:
            jobs_by_node.setdefault(node, set()).add(job_id)

    def _stop(self, job_id: str, at_most_ms: int | None = None) -> None:
        work, run = self._live(job_id)
        if run.stops_at_ms is None:
            usual_ms = self._delays.stop_ms
            stop_ms = usual_ms if at_most_ms is None else min(usual_ms, at_most_ms)
            run.stops_at_ms = self._clock.now_ms + stop_ms
            self._schedule(job_id, work, run)

    def _forget_if_over(self, job_id: str) -> None:
        work = self._jobs[job_id]
        if work.over and work.run is None:
            del self._jobs[job_id]

    def _schedule(self, job_id: str, work: _JobProgress, run: _Run) -> None:
        """Puts the next event of the attempt on the clock, in place of the one there."""
        event = self._next_event(job_id, work, run)
        stops_at_ms = run.stops_at_ms
        if stops_at_ms is not None and stops_at_ms <= event.at_ms:
            event = AttemptPreempted(
                at_ms=stops_at_ms, job_id=job_id, attempt=run.attempt, cause=run.cause
            )
        if run.entry is not None and run.entry[ITEM] is not None:
            self._clock.drop(run.entry)
        run.entry = self._clock.push(event)

    def _next_event(self, job_id: str, work: _JobProgress, run: _Run) -> Event:
        """The next event of the attempt if no order intervenes."""
        attempt = run.attempt
        if run.since_ms is None:
            at_ms = run.entry[AT_MS] if run.entry else self._clock.now_ms + run.faults.start_ms
            return AttemptStarted(at_ms=at_ms, job_id=job_id, attempt=attempt)
        remaining_ms = work.run_ms - work.saved_ms
        if run.wanted != run.granted:
            remaining_ms = run.time_for(remaining_ms)
        end_ms = run.since_ms + remaining_ms
        fails = False
        if run.fails_at_ms is not None and run.fails_at_ms < end_ms:
            fails = True
            end_ms = max(self._clock.now_ms, run.fails_at_ms)
        interval_ms = work.spec.checkpoint.interval_ms
        if interval_ms is not None and run.since_ms + interval_ms < end_ms:
            at_ms = run.since_ms + interval_ms
            return CheckpointSaved(at_ms=at_ms, job_id=job_id, attempt=attempt)
        if fails:
            return AttemptFailed(at_ms=end_ms, job_id=job_id, attempt=attempt)
        return AttemptSucceeded(at_ms=end_ms, job_id=job_id, attempt=attempt)

    def _live(self, job_id: str) -> tuple[_JobProgress, _Run]:
        work = self._jobs[job_id]
        assert work.run is not None
        return work, work.run

    def _node_lost(self, event: NodeLost) -> None:
        for job_id in self._jobs_on(event.node):
            _, run = self._live(job_id)
            assert run.entry is not None
            self._clock.drop(run.entry)
            self._end_run(job_id)
            self._forget_if_over(job_id)
        if self._jobs_by_node is not None:
            self._jobs_by_node.pop(event.node, None)

    def _true_run_ms(self, job_id: str, spec: JobSpec) -> int:
        run_ms = self._run_ms.get(job_id)
        if run_ms is None:
            run_ms = spec.expected_run_ms or run_time_of(spec)
        if run_ms is None or run_ms <= 0:
            raise BrokenInvariant(f"{job_id}: its true run time is not known")
        return run_ms

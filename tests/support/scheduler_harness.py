"""A scheduler with a clock: submits jobs, runs cycles, and reports what engines would.

Like the shells it calls ``decide`` and applies the events of each decision; tests report for the engines.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TypeVar

from bursar.core.cycle import decide
from bursar.core.order_events import events_for
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import ClaimPlacement, Decision, Hold, PreemptJob, StartJob
from bursar.model.event import (
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    Event,
    JobCancelled,
)
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec, JobState
from tests.support.fleets import submission

DecisionType = TypeVar("DecisionType", bound=Decision)


class SchedulerHarness:
    """The state, the time, the decisions of the last cycle, and all applied events."""

    def __init__(self, state: FleetState, now_ms: int = 0) -> None:
        self.state = state
        self.now_ms = now_ms
        self.decisions: tuple[Decision, ...] = ()
        self.log: list[Event] = []

    # -- what happens ----------------------------------------------------------------------------

    def advance(self, by_ms: int) -> SchedulerHarness:
        """Advances the time."""
        self.now_ms += by_ms
        return self

    def submit(self, *specs: JobSpec, priority: int | None = None) -> list[str]:
        """Submits jobs now. The id of each is its name, with ``-2`` and so on if that is taken."""
        found = []
        for spec in specs:
            job_id = self._free_id(spec.name)
            self.apply(submission(self.state, spec, job_id, self.now_ms, priority))
            found.append(job_id)
        return found

    def cycle(self) -> tuple[Decision, ...]:
        """Runs one cycle and applies its decisions."""
        self.decisions = decide(self.state, self.now_ms)
        for decision in self.decisions:
            for event in events_for(decision, self.now_ms):
                self.apply(event)
        return self.decisions

    def apply(self, event: Event) -> SchedulerHarness:
        """Applies an event."""
        self.state.apply(event)
        self.log.append(event)
        return self

    def start(self, job_id: str) -> SchedulerHarness:
        """The engine reports that the job's processes run."""
        attempt = self.state.jobs[job_id].attempt
        return self.apply(AttemptStarted(at_ms=self.now_ms, job_id=job_id, attempt=attempt))

    def start_all(self) -> SchedulerHarness:
        """Reports the start of every job that was placed."""
        for job_id in self.jobs_in(JobState.STARTING):
            self.start(job_id)
        return self

    def save(self, job_id: str) -> SchedulerHarness:
        """Reports a checkpoint."""
        attempt = self.state.jobs[job_id].attempt
        return self.apply(CheckpointSaved(at_ms=self.now_ms, job_id=job_id, attempt=attempt))

    def finish(self, *job_ids: str) -> SchedulerHarness:
        """Reports that the jobs succeeded."""
        for job_id in job_ids:
            attempt = self.state.jobs[job_id].attempt
            self.apply(AttemptSucceeded(at_ms=self.now_ms, job_id=job_id, attempt=attempt))
        return self

    def fail(self, job_id: str) -> SchedulerHarness:
        """Reports that the job failed."""
        attempt = self.state.jobs[job_id].attempt
        return self.apply(AttemptFailed(at_ms=self.now_ms, job_id=job_id, attempt=attempt))

    def cancel(self, job_id: str) -> SchedulerHarness:
        """Cancels the job."""
        return self.apply(JobCancelled(at_ms=self.now_ms, job_id=job_id))

    def preempted(self, *job_ids: str) -> SchedulerHarness:
        """Reports that preempted jobs have stopped; without names, all that were requested to stop."""
        for job_id in job_ids or self.stop_requested():
            attempt = self.state.jobs[job_id].attempt
            self.apply(AttemptPreempted(at_ms=self.now_ms, job_id=job_id, attempt=attempt))
        return self

    # -- what was decided ------------------------------------------------------------------------

    def decided(self, kind: type[DecisionType]) -> list[DecisionType]:
        """The decisions of one type in the last cycle: ``harness.decided(PreemptJob)``."""
        return [decision for decision in self.decisions if isinstance(decision, kind)]

    def started_now(self) -> list[str]:
        """The jobs that the last cycle started, in its order."""
        return [order.job_id for order in self.decided(StartJob)]

    def preempted_now(self) -> list[str]:
        """The jobs that the last cycle preempted, sorted."""
        return sorted(order.job_id for order in self.decided(PreemptJob))

    def claimed_now(self) -> list[str]:
        """The jobs for which the last cycle claimed a placement, sorted."""
        return sorted(order.job_id for order in self.decided(ClaimPlacement))

    def hold_of(self, job_id: str) -> Hold | None:
        """The last cycle's hold of a job, or of its job kind."""
        holds = self.decided(Hold)
        own = next((hold for hold in holds if job_id in hold.jobs), None)
        if own is not None:
            return own
        kind = self.state.jobs[job_id].backlog.kind
        return next((hold for hold in holds if hold.kind == kind and not hold.jobs), None)

    # -- what is where ---------------------------------------------------------------------------

    def job(self, job_id: str) -> JobRecord:
        """The record of a job that has not ended."""
        return self.state.jobs[job_id]

    def state_of(self, job_id: str) -> JobState:
        """The state of a job, also if it has ended."""
        record = self.state.jobs.get(job_id)
        return self.state.finished[job_id] if record is None else record.state

    def jobs_in(self, *states: JobState) -> list[str]:
        """The ids of the jobs in these states, sorted."""
        return sorted(job_id for job_id, job in self.state.jobs.items() if job.state in states)

    def waiting(self) -> list[str]:
        """The jobs that are queued or wait for other jobs."""
        return self.jobs_in(JobState.QUEUED, JobState.BLOCKED)

    def running(self) -> list[str]:
        """The live jobs that were not requested to stop."""
        return self.jobs_in(JobState.STARTING, JobState.RUNNING)

    def stop_requested(self) -> list[str]:
        """The live jobs that were requested to stop."""
        return sorted(record.id for record in self.state.live() if record.stop_requested)

    def placement_of(self, job_id: str) -> Placement:
        """The placement of a job, which must have one."""
        placement = self.state.jobs[job_id].placement
        if placement is None:
            raise LookupError(f"{job_id} is {self.state_of(job_id)} and has no place")
        return placement

    def nodes_of(self, job_id: str) -> list[str]:
        """The nodes of a job, sorted."""
        return sorted({task.node for task in self.placement_of(job_id).all_tasks})

    def gpus_of(self, job_id: str) -> dict[str, tuple[int, ...]]:
        """The whole GPUs a job holds, by node."""
        found: dict[str, tuple[int, ...]] = defaultdict(tuple)
        for task in self.placement_of(job_id).all_tasks:
            if task.gpus:
                found[task.node] = tuple(sorted((*found[task.node], *task.gpus)))
        return dict(sorted(found.items()))

    def free_gpus(self, pool: str) -> int:
        """The free whole GPUs on open nodes of a pool."""
        return self.state.pools[pool].free_gpus()

    def _free_id(self, name: str) -> str:
        job_id, number = name, 2
        while job_id in self:
            job_id, number = f"{name}-{number}", number + 1
        return job_id

    def __contains__(self, job_id: str) -> bool:
        """Whether a job with this id was ever submitted."""
        return job_id in self.state.jobs or job_id in self.state.finished

"""A world with a clock: jobs come, the scheduler decides, engines report, time goes on.

The harness does what the shells do and nothing more: it asks ``decide``, commits each decision as the
events it stands for, and brings in what an engine would report when a test says so.
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
    """Holds a state, the time, everything decided in the last cycle and every event applied."""

    def __init__(self, state: FleetState, now_ms: int = 0) -> None:
        self.state = state
        self.now_ms = now_ms
        self.decisions: tuple[Decision, ...] = ()
        self.log: list[Event] = []

    # -- what happens ----------------------------------------------------------------------------

    def advance(self, by_ms: int) -> SchedulerHarness:
        """Let time pass; nothing else happens."""
        self.now_ms += by_ms
        return self

    def submit(self, *specs: JobSpec, priority: int | None = None) -> list[str]:
        """Submit jobs now. Each is known by its name, with ``-2`` and so on when that is taken."""
        found = []
        for spec in specs:
            job_id = self._free_id(spec.name)
            self.apply(submission(self.state, spec, job_id, self.now_ms, priority))
            found.append(job_id)
        return found

    def cycle(self) -> tuple[Decision, ...]:
        """Decide once and commit what was decided."""
        self.decisions = decide(self.state, self.now_ms)
        for decision in self.decisions:
            for event in events_for(decision, self.now_ms):
                self.apply(event)
        return self.decisions

    def apply(self, event: Event) -> SchedulerHarness:
        """Bring in a fact."""
        self.state.apply(event)
        self.log.append(event)
        return self

    def start(self, job_id: str) -> SchedulerHarness:
        """The engine reports that the job's processes run."""
        attempt = self.state.jobs[job_id].attempt
        return self.apply(AttemptStarted(at_ms=self.now_ms, job_id=job_id, attempt=attempt))

    def start_all(self) -> SchedulerHarness:
        """Every job that was given a place runs."""
        for job_id in self.jobs_in(JobState.STARTING):
            self.start(job_id)
        return self

    def save(self, job_id: str) -> SchedulerHarness:
        """The job saved its work."""
        attempt = self.state.jobs[job_id].attempt
        return self.apply(CheckpointSaved(at_ms=self.now_ms, job_id=job_id, attempt=attempt))

    def finish(self, *job_ids: str) -> SchedulerHarness:
        """The jobs ended well."""
        for job_id in job_ids:
            attempt = self.state.jobs[job_id].attempt
            self.apply(AttemptSucceeded(at_ms=self.now_ms, job_id=job_id, attempt=attempt))
        return self

    def fail(self, job_id: str) -> SchedulerHarness:
        """The job's processes ended badly."""
        attempt = self.state.jobs[job_id].attempt
        return self.apply(AttemptFailed(at_ms=self.now_ms, job_id=job_id, attempt=attempt))

    def cancel(self, job_id: str) -> SchedulerHarness:
        """Its user does not want it any more."""
        return self.apply(JobCancelled(at_ms=self.now_ms, job_id=job_id))

    def preempted(self, *job_ids: str) -> SchedulerHarness:
        """The jobs have stopped as they were told; without names, all that were told to."""
        for job_id in job_ids or self.stop_requested():
            attempt = self.state.jobs[job_id].attempt
            self.apply(AttemptPreempted(at_ms=self.now_ms, job_id=job_id, attempt=attempt))
        return self

    # -- what was decided ------------------------------------------------------------------------

    def decided(self, kind: type[DecisionType]) -> list[DecisionType]:
        """The decisions of one type in the last cycle: ``harness.decided(PreemptJob)``."""
        return [decision for decision in self.decisions if isinstance(decision, kind)]

    def started_now(self) -> list[str]:
        """The jobs that the last cycle gave a place, in its order."""
        return [order.job_id for order in self.decided(StartJob)]

    def preempted_now(self) -> list[str]:
        """The jobs that the last cycle told to make room, sorted."""
        return sorted(order.job_id for order in self.decided(PreemptJob))

    def claimed_now(self) -> list[str]:
        """The jobs for which the last cycle keeps a place until others have left it, sorted."""
        return sorted(order.job_id for order in self.decided(ClaimPlacement))

    def hold_of(self, job_id: str) -> Hold | None:
        """The last cycle's hold that covers a job: its own if there is one, else its kind's."""
        holds = self.decided(Hold)
        own = next((hold for hold in holds if job_id in hold.jobs), None)
        if own is not None:
            return own
        kind = self.state.jobs[job_id].backlog.kind
        return next((hold for hold in holds if hold.kind == kind and not hold.jobs), None)

    # -- what is where ---------------------------------------------------------------------------

    def job(self, job_id: str) -> JobRecord:
        """What the state knows of a job that is not over."""
        return self.state.jobs[job_id]

    def state_of(self, job_id: str) -> JobState:
        """Where a job is in its life, also when it is over."""
        record = self.state.jobs.get(job_id)
        return self.state.finished[job_id] if record is None else record.state

    def jobs_in(self, *states: JobState) -> list[str]:
        """The ids of the jobs in these states, sorted."""
        return sorted(job_id for job_id, job in self.state.jobs.items() if job.state in states)

    def waiting(self) -> list[str]:
        """The jobs that wait in a queue or for other jobs."""
        return self.jobs_in(JobState.QUEUED, JobState.BLOCKED)

    def running(self) -> list[str]:
        """The jobs that hold room and were not told to stop."""
        return self.jobs_in(JobState.STARTING, JobState.RUNNING)

    def stop_requested(self) -> list[str]:
        """The jobs that were told to stop and still hold room."""
        return sorted(record.id for record in self.state.live() if record.stop_requested)

    def placement_of(self, job_id: str) -> Placement:
        """Where a job is; it must have a place."""
        placement = self.state.jobs[job_id].placement
        if placement is None:
            raise LookupError(f"{job_id} is {self.state_of(job_id)} and has no place")
        return placement

    def nodes_of(self, job_id: str) -> list[str]:
        """The nodes a job is on, sorted."""
        return sorted({task.node for task in self.placement_of(job_id).all_tasks})

    def gpus_of(self, job_id: str) -> dict[str, tuple[int, ...]]:
        """The whole GPUs a job holds, by node."""
        found: dict[str, tuple[int, ...]] = defaultdict(tuple)
        for task in self.placement_of(job_id).all_tasks:
            if task.gpus:
                found[task.node] = tuple(sorted((*found[task.node], *task.gpus)))
        return dict(sorted(found.items()))

    def free_gpus(self, pool: str) -> int:
        """Whole GPUs free on open nodes of a pool."""
        return self.state.pools[pool].free_gpus()

    def _free_id(self, name: str) -> str:
        job_id, number = name, 2
        while job_id in self:
            job_id, number = f"{name}-{number}", number + 1
        return job_id

    def __contains__(self, job_id: str) -> bool:
        """Whether a job of this id was ever submitted."""
        return job_id in self.state.jobs or job_id in self.state.finished

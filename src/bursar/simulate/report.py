"""What happened, in numbers: a fold over the steps of a run, at the cost of what is alive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bursar.core.charge import gpu_milli_held, lost_micro_usd
from bursar.core.state import FleetState
from bursar.model.attempt import Placement
from bursar.model.decision import PreemptJob
from bursar.model.event import (
    AttemptAssigned,
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    Event,
    JobSubmitted,
    NodeLost,
)
from bursar.model.job import JobSpec, JobState
from bursar.model.units import HOUR_MS, MILLI
from bursar.simulate.loop import Step


def percentile(sorted_values: Sequence[int], percent: int) -> int:
    """The smallest value that so many percent do not exceed (nearest rank); 0 when there is none."""
    if not sorted_values:
        return 0
    rank = -(-percent * len(sorted_values) // 100)
    return sorted_values[max(0, rank - 1)]


@dataclass(slots=True, kw_only=True)
class TeamReport:
    """One team's day. ``waits_ms`` is the time each finished job stood in line, all attempts added."""

    team: str
    jobs: int = 0
    succeeded: int = 0
    stopped: int = 0
    waits_ms: list[int] = field(default_factory=list)
    gpu_milli_ms: int = 0
    cost_micro_usd: int = 0
    preempted: int = 0
    lost_micro_usd: int = 0

    @property
    def wait_mean_ms(self) -> int:
        return sum(self.waits_ms) // max(1, len(self.waits_ms))

    def wait_ms(self, percent: int) -> int:
        """So many percent of the team's jobs stood in line no longer than this."""
        return percentile(sorted(self.waits_ms), percent)

    @property
    def gpu_hours(self) -> float:
        return self.gpu_milli_ms / MILLI / HOUR_MS


class _Waiting:
    """A job that is not over: since when it stands in line, and for how long it has stood before.

    A job that depends on others stands in line from the moment the last of them is over.
    """

    __slots__ = ("since_ms", "spec", "waited_ms")

    def __init__(self, spec: JobSpec, since_ms: int) -> None:
        self.spec = spec
        self.since_ms = since_ms
        self.waited_ms = 0


class _Holding:
    """A live attempt and what it takes."""

    __slots__ = ("gpu_milli", "placement", "preempted", "saved_ms", "since_ms")

    def __init__(self, placement: Placement, gpu_milli: int, now_ms: int) -> None:
        self.placement = placement
        self.gpu_milli = gpu_milli
        self.since_ms = self.saved_ms = now_ms
        self.preempted = False


class Report:
    """Counts the steps of one run as they are taken; ``state`` is that of the same run."""

    def __init__(self, state: FleetState, *, stretch_ms: int = HOUR_MS) -> None:
        self._state = state
        self._stretch_ms = stretch_ms
        self._jobs: dict[str, _Waiting] = {}
        self._dependents: dict[str, set[str]] = {}
        self._held: dict[str, _Holding] = {}
        self._held_milli = 0
        self._all_milli = self._capacity_milli()
        self._used: dict[int, int] = {}
        self._capacity: dict[int, int] = {}
        self._last_ms: int | None = None
        self._teams: dict[str, TeamReport] = {}
        self.cycle_ns: list[int] = []
        self.ended_ms = 0

    def note(self, step: Step) -> None:
        """Count one step, right after it was taken."""
        self._pass_time(step.now_ms)
        for decision in step.decisions:
            if isinstance(decision, PreemptJob):
                self._held[decision.job_id].preempted = True
                self.team(self._jobs[decision.job_id].spec.queue).preempted += 1
        for event in (*step.events, *step.committed):
            self._count(event)
        if step.cycle_ns is not None:
            self.cycle_ns.append(step.cycle_ns)
        if step.events or step.committed:
            self.ended_ms = step.now_ms
        self._all_milli = self._capacity_milli()

    # -- reading ---------------------------------------------------------------------------------

    def team(self, tenant: str) -> TeamReport:
        """The report of the team a tenant belongs to: its ancestor next to the root."""
        name = tenant
        while (parent := self._state.tenants[name].parent) is not None:
            if self._state.tenants[parent].parent is None:
                break
            name = parent
        return self._teams.setdefault(name, TeamReport(team=name))

    def teams(self) -> list[TeamReport]:
        """By name."""
        return [self._teams[name] for name in sorted(self._teams)]

    def unfinished(self) -> list[str]:
        """Jobs that were not over when the run ended."""
        return sorted(self._jobs)

    def utilisation(self) -> list[tuple[int, int]]:
        """The start of each stretch of time, and the percent of all GPUs that were held in it."""
        return [
            (index * self._stretch_ms, 100 * self._used[index] // max(1, self._capacity[index]))
            for index in sorted(self._used)
        ]

    @property
    def mean_utilisation_percent(self) -> float:
        return 100 * sum(self._used.values()) / max(1, sum(self._capacity.values()))

    # -- counting --------------------------------------------------------------------------------

    def _pass_time(self, now_ms: int) -> None:
        """Add what was held since the last step to the stretches it covers."""
        last_ms, self._last_ms = self._last_ms, now_ms
        if last_ms is None:
            return
        for index, part_ms in _stretches(last_ms, now_ms, self._stretch_ms):
            self._used[index] = self._used.get(index, 0) + self._held_milli * part_ms
            self._capacity[index] = self._capacity.get(index, 0) + self._all_milli * part_ms

    def _capacity_milli(self) -> int:
        pools = self._state.pools.values()
        return MILLI * sum(len(pool.nodes) * pool.spec.gpus_per_node for pool in pools)

    def _count(self, event: Event) -> None:
        match event:
            case JobSubmitted(job_id=job_id, spec=spec, at_ms=at_ms):
                self._submitted(job_id, spec, at_ms)
            case AttemptAssigned(job_id=job_id, placement=placement, at_ms=at_ms):
                self._assigned(job_id, placement, at_ms)
            case AttemptStarted(job_id=job_id) | CheckpointSaved(job_id=job_id):
                if job_id in self._held:
                    self._held[job_id].saved_ms = event.at_ms
            case AttemptPreempted() | AttemptSucceeded() | AttemptFailed():
                self._ended(event.job_id, event.at_ms)
            case NodeLost(node=node, at_ms=at_ms):
                for job_id, holding in sorted(self._held.items()):
                    if any(task.node == node for task in holding.placement.all_tasks):
                        self._ended(job_id, at_ms)
            case _:
                pass
        job_id = getattr(event, "job_id", "")
        if job_id in self._state.finished and job_id in self._jobs and job_id not in self._held:
            self._over(job_id, event.at_ms)

    def _submitted(self, job_id: str, spec: JobSpec, at_ms: int) -> None:
        self._jobs[job_id] = _Waiting(spec, at_ms)
        for dependency in spec.depends_on:
            self._dependents.setdefault(dependency, set()).add(job_id)
        self.team(spec.queue).jobs += 1

    def _assigned(self, job_id: str, placement: Placement, at_ms: int) -> None:
        model = self._state.pools[placement.pool].spec.gpu_model
        gpu_milli = sum(gpu_milli_held(task, model) for task in placement.all_tasks)
        self._held[job_id] = _Holding(placement, gpu_milli, at_ms)
        self._held_milli += gpu_milli
        job = self._jobs[job_id]
        job.waited_ms += at_ms - job.since_ms

    def _ended(self, job_id: str, at_ms: int) -> None:
        holding = self._held.pop(job_id)
        self._held_milli -= holding.gpu_milli
        job = self._jobs[job_id]
        job.since_ms = at_ms
        team = self.team(job.spec.queue)
        hourly = holding.placement.all_micro_usd_per_hour
        team.gpu_milli_ms += holding.gpu_milli * (at_ms - holding.since_ms)
        team.cost_micro_usd += hourly * (at_ms - holding.since_ms) // HOUR_MS
        if holding.preempted and job_id not in self._state.finished:
            restart_ms = job.spec.checkpoint.restart_ms
            team.lost_micro_usd += lost_micro_usd(hourly, at_ms - holding.saved_ms, restart_ms)

    def _over(self, job_id: str, at_ms: int) -> None:
        job = self._jobs.pop(job_id)
        team = self.team(job.spec.queue)
        team.waits_ms.append(job.waited_ms + at_ms - job.since_ms)
        if self._state.finished[job_id] is JobState.SUCCEEDED:
            team.succeeded += 1
        else:
            team.stopped += 1
        for dependent in self._dependents.pop(job_id, ()):
            if dependent in self._jobs:
                self._jobs[dependent].since_ms = at_ms


def _stretches(begin_ms: int, end_ms: int, stretch_ms: int) -> Iterator[tuple[int, int]]:
    """The stretches that a span touches, and how much of it lies in each."""
    while begin_ms < end_ms:
        index = begin_ms // stretch_ms
        until_ms = min(end_ms, (index + 1) * stretch_ms)
        yield index, until_ms - begin_ms
        begin_ms = until_ms

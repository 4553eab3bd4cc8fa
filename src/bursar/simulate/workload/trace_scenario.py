"""A trace on a fleet: each row becomes a job that the scheduler can judge.

A trace was made on other hardware, by other teams. What it asks for is put into our words here, and
what could never run on this fleet is left out, counted, and told with the reason that admission gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from typing import Final, NamedTuple

from bursar.catalog.gpu_models import GPU_MODELS, find_gpu_model
from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.admit import check_job
from bursar.core.state.fleet_state import FleetState
from bursar.model.errors import UserError
from bursar.model.event import JobSubmitted
from bursar.model.fleet.fleet import Fleet
from bursar.model.jobs.job import (
    CheckpointPolicy,
    Constraints,
    GpuRequest,
    JobSpec,
    MigSlice,
    MpsShare,
    TaskGroup,
    WholeGpus,
)
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import MILLI
from bursar.simulate.scenario import Scenario
from bursar.simulate.traces.gpu_names import ANONYMOUS
from bursar.simulate.workload.trace import Trace, TraceJob

DEFAULT_QUEUE: Final = "default"
MILLI_PER_PERCENT: Final = MILLI // 100
KNOWN_MODELS: Final = frozenset(model.name for model in GPU_MODELS)


class UnknownTeams(StrEnum):
    """Where the jobs of a team wait that is no tenant of the fleet."""

    OWN_QUEUE = "own-queue"
    DEFAULT_QUEUE = "default-queue"


class EstimateSource(StrEnum):
    """What the scheduler is told of a job's run time: what its user wrote, the truth, or nothing."""

    WRITTEN = "written"
    TRUE = "true"
    NONE = "none"


# Members of an enum are looked up by a method of the enum; names of this module cost nothing.
_WRITTEN: Final = EstimateSource.WRITTEN
_TRUE: Final = EstimateSource.TRUE


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMapping:
    """How the words of a trace become ours.

    ``teams`` sends teams to queues by name. ``limits`` also makes what a user wrote the job's maximum
    run time, as Slurm does. ``any_model`` forgets which GPU models were asked for. ``slices`` makes
    MIG slices of parts of a GPU, from thousandths to profile; other parts become MPS shares.
    """

    teams: Mapping[str, str] = field(default_factory=dict)
    unknown_teams: UnknownTeams = UnknownTeams.OWN_QUEUE
    estimate: EstimateSource = EstimateSource.WRITTEN
    limits: bool = False
    any_model: bool = False
    slices: Mapping[int, str] = field(default_factory=dict)
    constraints: Constraints = field(default_factory=Constraints)
    checkpoint: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    preemptible: bool = True
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStream:
    """A workload too long to hold: its teams are known beforehand, its jobs are drawn one by one.

    ``guess`` says how long a job will run in place of what its user wrote, when it is drawn.
    """

    source: str
    teams: tuple[str, ...]
    draw: Callable[[], Iterator[TraceJob]]
    guess: Callable[[TraceJob], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A job of the trace that is not in the run, and why."""

    source: str
    job_id: str
    problem: str

    def __str__(self) -> str:
        return f"{self.source}: job {self.job_id}: {self.problem}"


class Remarks:
    """What had to be said about the jobs so far. A stream adds to it while it runs."""

    def __init__(self) -> None:
        self.left_out: list[LeftOut] = []
        self._counted: Counter[str] = Counter()

    def count(self, what: str) -> None:
        self._counted[what] += 1

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed on the way, and for how many jobs."""
        return tuple(f"{count:,} jobs: {what}" for what, count in sorted(self._counted.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRun:
    """A scenario made of a trace, and what had to be said about its jobs."""

    scenario: Scenario
    remarks: Remarks


def as_scenario(
    trace: Trace | JobStream,
    fleet: Fleet,
    tenants: Iterable[Tenant],
    policies: Policies,
    mapping: TraceMapping | None = None,
) -> TraceRun:
    """The trace as submissions to this fleet, with the queues that its teams need."""
    mapping = mapping or TraceMapping()
    teams = trace.teams if isinstance(trace, JobStream) else {job.team for job in trace}
    queues, tree = _queues(sorted(teams), tuple(tenants), mapping)
    remarks = Remarks()
    state = FleetState(fleet, tree, policies)
    submissions = _Submissions(trace.source, mapping, queues, state, remarks)
    if isinstance(trace, JobStream):
        run_ms: Mapping[str, int] = submissions.run_ms
        submissions.guess = trace.guess
        events: Iterable[JobSubmitted] = submissions.of(trace.draw())
    else:
        jobs = sorted(_once(trace, remarks), key=attrgetter("submitted_ms"))
        events = tuple(submissions.of(jobs))
        run_ms = dict(submissions.run_ms.waiting)
    scenario = Scenario(fleet=fleet, tenants=tree, policies=policies, events=events, run_ms=run_ms)
    return TraceRun(scenario=scenario, remarks=remarks)


def _once(trace: Trace, remarks: Remarks) -> Iterable[TraceJob]:
    """The jobs without those whose id is taken, of which a trace that was read has none."""
    if len({job.job_id for job in trace.jobs}) == len(trace.jobs):
        return trace.jobs
    first: dict[str, TraceJob] = {}
    for job in trace.jobs:
        if job.job_id in first:
            problem = "its id stands in the trace before"
            remarks.left_out.append(
                LeftOut(source=trace.source, job_id=job.job_id, problem=problem)
            )
        else:
            first[job.job_id] = job
    return first.values()


# -- teams -----------------------------------------------------------------------------------------


def _queues(
    teams: Iterable[str], tenants: tuple[Tenant, ...], mapping: TraceMapping
) -> tuple[dict[str, str], tuple[Tenant, ...]]:
    """The queue of each team, and the tenants with the queues that had to be made for them."""
    known = {tenant.name: tenant for tenant in tenants}
    roots = [one.name for one in tenants if one.parent is None and not one.is_queue]
    parent = roots[0] if len(roots) == 1 else None
    queues: dict[str, str] = {}
    for team in teams:
        queue = mapping.teams.get(team, team)
        if queue not in known or not known[queue].is_queue:
            if mapping.unknown_teams is UnknownTeams.DEFAULT_QUEUE:
                queue = DEFAULT_QUEUE
            elif queue in known:
                queue = f"{queue}-jobs"
            known.setdefault(queue, Tenant(name=queue, parent=parent, is_queue=True))
        queues[team] = queue
    return queues, tuple(known.values())


# -- jobs ------------------------------------------------------------------------------------------


class RunTimesToCome(Mapping[str, int]):
    """How long jobs really run, each told once: a stream must not keep what nobody asks for again."""

    def __init__(self) -> None:
        self.waiting: dict[str, int] = {}

    def __getitem__(self, job_id: str) -> int:
        return self.waiting.pop(job_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)


class _Ask(NamedTuple):
    """What of a trace's job decides whether and where it can run; many jobs share one."""

    queue: str
    tasks: int
    gpus: int
    gpu_milli: int
    gpu_models: tuple[str, ...]
    cpu_milli: int
    memory_mib: int


class _Submissions:
    """Makes submissions of trace jobs; what an ask becomes is worked out once for all that share it."""

    def __init__(
        self,
        source: str,
        mapping: TraceMapping,
        queues: Mapping[str, str],
        state: FleetState,
        remarks: Remarks,
    ) -> None:
        self._source = source
        self._mapping = mapping
        self._queues = queues
        self._state = state
        self._remarks = remarks
        self._templates: dict[tuple[object, ...], JobSpec | str] = {}
        self._team_alone = {team: (team,) if team else () for team in queues}
        self._classes = _classes_by_value(state.policies)
        self.run_ms = RunTimesToCome()
        self.guess: Callable[[TraceJob], int] | None = None

    def of(self, jobs: Iterable[TraceJob]) -> Iterator[JobSubmitted]:
        run_times = self.run_ms.waiting
        for job in jobs:
            template = self._template_of(job)
            if job.submitted_ms < 0 or job.run_ms < 0:
                template = _wrong_times(job)
            if isinstance(template, str):
                left_out = LeftOut(source=self._source, job_id=job.job_id, problem=template)
                self._remarks.left_out.append(left_out)
                continue
            run_times[job.job_id] = job.run_ms or 1
            if job.run_ms < 1 or job.gpu_milli or job.deadline_ms is not None:
                self._note(job)
            yield JobSubmitted(
                at_ms=job.submitted_ms,
                job_id=job.job_id,
                spec=self._spec(job, template),
                priority=job.priority,
            )

    def _spec(self, job: TraceJob, template: JobSpec) -> JobSpec:
        mapping = self._mapping
        deadline_ms = job.deadline_ms
        if deadline_ms is not None and deadline_ms <= job.submitted_ms:
            deadline_ms = None
        return replace(
            template,
            name=job.name or job.job_id,
            priority_class=self._classes.get(job.priority, self._classes[None]),
            expected_run_ms=self._told_ms(job, mapping.estimate),
            max_run_ms=self._told_ms(job, _WRITTEN) if mapping.limits else None,
            deadline_ms=deadline_ms,
            similarity_keys=self._alike_of(job),
        )

    def _alike_of(self, job: TraceJob) -> tuple[str, ...]:
        """Whose earlier jobs tell how long it runs; one value for all of whom only the team is known."""
        if not job.user and not job.name:
            return self._team_alone[job.team]
        return tuple(filter(None, (job.team, job.user, job.name)))

    def _told_ms(self, job: TraceJob, estimate: EstimateSource) -> int | None:
        if estimate is _WRITTEN:
            told_ms = job.expected_ms if self.guess is None else self.guess(job)
            return told_ms if told_ms and told_ms > 0 else None
        return max(1, job.run_ms) if estimate is _TRUE else None

    def _note(self, job: TraceJob) -> None:
        if job.run_ms < 1:
            self._remarks.count("ran for less than a millisecond, counted as one")
        if job.gpu_milli % MILLI_PER_PERCENT and job.gpu_milli not in self._mapping.slices:
            self._remarks.count("ask for a part of a GPU that is no whole percent, rounded up")
        if job.deadline_ms is not None and job.deadline_ms <= job.submitted_ms:
            self._remarks.count("had passed their deadline when submitted, run without one")

    def _template_of(self, job: TraceJob) -> JobSpec | str:
        """The spec that all jobs with the same request share, or why it can never run here."""
        ask = (
            self._queues[job.team],
            job.tasks,
            job.gpus,
            job.gpu_milli,
            () if self._mapping.any_model else job.gpu_models,
            job.cpu_milli,
            job.memory_mib,
        )
        found = self._templates.get(ask)
        if found is None:
            found = self._templates[ask] = self._work_out(_Ask(*ask))
        return found

    def _work_out(self, ask: _Ask) -> JobSpec | str:
        mapping = self._mapping
        try:
            models = tuple(sorted({_catalog_name(name) for name in ask.gpu_models}))
            spec = JobSpec(
                name="job",
                queue=ask.queue,
                groups=_task_groups(ask, models, self._gpus_per_node(models), mapping.slices),
                priority_class=self._classes[None],
                constraints=mapping.constraints,
            )
            check_job(
                AdmissionRequest(
                    spec=spec,
                    job_id="job",
                    at_ms=0,
                    state=self._state,
                    known_models=KNOWN_MODELS.union(models),
                )
            )
        except UserError as error:
            return error.problem.removeprefix("job 'job': ")
        return replace(
            spec,
            preemptible=mapping.preemptible,
            checkpoint=mapping.checkpoint,
            retries=mapping.retries,
        )

    def _gpus_per_node(self, models: tuple[str, ...]) -> int:
        """GPUs of the largest node that has one of these models; of any when none has."""
        specs = [pool.spec for pool in self._state.pools.values()]
        fitting = [
            spec.gpus_per_node
            for spec in specs
            if not models or (spec.gpu_model and spec.gpu_model.name in models)
        ]
        return max(fitting, default=0) or max((spec.gpus_per_node for spec in specs), default=0)


def _catalog_name(name: str) -> str:
    """The catalog's name of a GPU model. A type whose model its publisher hides keeps its own."""
    return name if name.startswith(ANONYMOUS) else find_gpu_model(name).name


def _wrong_times(job: TraceJob) -> str:
    if job.submitted_ms < 0:
        return f"was submitted {-job.submitted_ms:,} ms before the trace begins"
    if job.run_ms < 0:
        return f"ran for {job.run_ms:,} ms"
    return ""


def _classes_by_value(policies: Policies) -> dict[int | None, str]:
    """The class that has a priority; under None the class for priorities that no class has."""
    ordered = sorted(policies.priority_classes.items(), key=lambda one: (abs(one[1]), one[0]))
    found: dict[int | None, str] = {None: ordered[0][0]}
    for name, value in ordered:
        found.setdefault(value, name)
    return found


def _task_groups(
    ask: _Ask, models: tuple[str, ...], gpus_per_node: int, slices: Mapping[int, str]
) -> tuple[TaskGroup, ...]:
    """Tasks of at most a node's GPUs: full ones, and one for what is left of each task."""
    if ask.gpus <= max(1, gpus_per_node):
        return (_group("main", ask, ask.tasks, _request(ask, models, slices)),)
    full, rest = divmod(ask.gpus, gpus_per_node)
    whole = WholeGpus(count=gpus_per_node, models=models)
    groups = [_group("main", ask, ask.tasks * full, whole)]
    if rest:
        groups.append(_group("rest", ask, ask.tasks, WholeGpus(count=rest, models=models)))
    return tuple(groups)


def _group(name: str, ask: _Ask, count: int, request: GpuRequest | None) -> TaskGroup:
    """CPU and memory of a task that was split go with its GPUs."""
    part = request.count if isinstance(request, WholeGpus) else ask.gpus
    total = max(1, ask.gpus)
    return TaskGroup(
        name=name,
        count=count,
        gpu=request,
        cpu_milli=ask.cpu_milli * part // total if part else ask.cpu_milli,
        memory_mib=ask.memory_mib * part // total if part else ask.memory_mib,
    )


def _request(ask: _Ask, models: tuple[str, ...], slices: Mapping[int, str]) -> GpuRequest | None:
    if ask.gpus:
        return WholeGpus(count=ask.gpus, models=models)
    if ask.gpu_milli in slices:
        return MigSlice(profile=slices[ask.gpu_milli], models=models)
    if not ask.gpu_milli:
        return None
    percent = -(-ask.gpu_milli // MILLI_PER_PERCENT)
    if percent >= 100:
        return WholeGpus(count=-(-percent // 100), models=models)
    return MpsShare(percent=percent, models=models)

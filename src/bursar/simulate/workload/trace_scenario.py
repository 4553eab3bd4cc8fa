"""Maps a trace to a fleet: each row becomes a submission.

A trace comes from other hardware and other teams. Jobs that could never run on this fleet are left out,
counted, and reported with the reason from admission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from operator import attrgetter
from typing import Final

from bursar.catalog.gpu_models import GPU_MODELS, find_gpu_model
from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.admit import check_job
from bursar.core.state.fleet_state import FleetState
from bursar.model.errors import UserError
from bursar.model.event import JobSubmitted
from bursar.model.fleet.fleet import Fleet
from bursar.model.jobs.job import CheckpointPolicy, Constraints, JobSpec
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.simulate.named_policies import RunTimeSource
from bursar.simulate.scenario import Scenario
from bursar.simulate.traces.gpu_names import ANONYMOUS
from bursar.simulate.workload.trace import Trace, TraceJob
from bursar.simulate.workload.trace_requests import (
    MILLI_PER_PERCENT,
    TraceRequest,
    all_markets,
    mig_geometry,
    task_groups,
    with_slices,
)

DEFAULT_QUEUE: Final = "default"
KNOWN_MODELS: Final = frozenset(model.name for model in GPU_MODELS)


# Module-level names are faster than looking up members of an enum.
_ORACLE: Final = RunTimeSource.ORACLE
_NONE: Final = RunTimeSource.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMapping:
    """How the jobs of a trace become submissions.

    ``estimate`` is where their run time estimates come from. ``teams_share_a_queue`` puts teams that the
    fleet does not know into one queue. ``pin_label`` restricts each queue's jobs to nodes whose label of
    this name is the queue. ``any_model`` ignores the requested GPU models. ``may_use_spot`` also allows
    spot capacity for every job. ``parts_are_slices`` replaces GPU shares by MIG slices.
    """

    estimate: RunTimeSource = RunTimeSource.WRITTEN
    teams_share_a_queue: bool = False
    pin_label: str | None = None
    any_model: bool = False
    may_use_spot: bool = False
    parts_are_slices: bool = False
    constraints: Constraints = field(default_factory=Constraints)
    checkpoint: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStream:
    """A workload that is not held in memory: its teams are known, its jobs are drawn one by one.

    ``guess`` predicts the run time of a job when it is drawn, instead of its user's estimate.
    """

    source: str
    teams: tuple[str, ...]
    draw: Callable[[], Iterator[TraceJob]]
    guess: Callable[[TraceJob], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A job of the trace that is not in the run, and the reason."""

    source: str
    job_id: str
    problem: str

    def __str__(self) -> str:
        return f"{self.source}: job {self.job_id}: {self.problem}"


class Remarks:
    """Remarks about the jobs so far. A stream adds to them during the run."""

    def __init__(self) -> None:
        self.left_out: list[LeftOut] = []
        self._counted: Counter[str] = Counter()

    def count(self, what: str) -> None:
        self._counted[what] += 1

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed, and for how many jobs."""
        return tuple(f"{count:,} jobs: {what}" for what, count in sorted(self._counted.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRun:
    """A scenario made from a trace, and remarks about its jobs."""

    scenario: Scenario
    remarks: Remarks


def as_scenario(
    trace: Trace | JobStream,
    fleet: Fleet,
    tenants: Iterable[Tenant],
    policies: Policies,
    mapping: TraceMapping | None = None,
) -> TraceRun:
    """Makes a scenario from a trace, with the queues that its teams need."""
    mapping = mapping or TraceMapping()
    teams = trace.teams if isinstance(trace, JobStream) else {job.team for job in trace}
    queues, tree = _queues(sorted(teams), tuple(tenants), share=mapping.teams_share_a_queue)
    remarks = Remarks()
    state = FleetState(fleet, tree, policies)
    submissions = _Submissions(trace.source, mapping, queues, state, remarks)
    if isinstance(trace, JobStream):
        run_ms: Mapping[str, int] = submissions.run_ms
        submissions.guess = trace.guess
        events: Iterable[JobSubmitted] = submissions.of(trace.draw())
    else:
        jobs = sorted(_without_duplicates(trace, remarks), key=attrgetter("submitted_ms"))
        events = tuple(submissions.of(jobs))
        run_ms = dict(submissions.run_ms.waiting)
    scenario = Scenario(fleet=fleet, tenants=tree, policies=policies, events=events, run_ms=run_ms)
    return TraceRun(scenario=scenario, remarks=remarks)


def _without_duplicates(trace: Trace, remarks: Remarks) -> Iterable[TraceJob]:
    """Drops jobs with a repeated id, which the readers of traces never return."""
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
    teams: Iterable[str], tenants: tuple[Tenant, ...], *, share: bool
) -> tuple[dict[str, str], tuple[Tenant, ...]]:
    """The queue of each team, and the tenants including new queues."""
    known = {tenant.name: tenant for tenant in tenants}
    roots = [one.name for one in tenants if one.parent is None and not one.is_queue]
    parent = roots[0] if len(roots) == 1 else None
    queues: dict[str, str] = {}
    for team in teams:
        queue = team
        if queue not in known or not known[queue].is_queue:
            if share:
                queue = DEFAULT_QUEUE
            elif queue in known:
                queue = f"{queue}-jobs"
            known.setdefault(queue, Tenant(name=queue, parent=parent, is_queue=True))
        queues[team] = queue
    return queues, tuple(known.values())


# -- jobs ------------------------------------------------------------------------------------------


class RunTimesToCome(Mapping[str, int]):
    """True run times, each of which can be read once, to bound the memory of a stream."""

    def __init__(self) -> None:
        self.waiting: dict[str, int] = {}

    def __getitem__(self, job_id: str) -> int:
        return self.waiting.pop(job_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)


_JOBS_OWN: Final = frozenset(
    {"name", "priority_class", "expected_run_ms", "deadline_ms", "similarity_keys"}
)
"""What jobs with the same request differ in. A partial call takes half the time of ``replace``."""

_Template = Callable[..., JobSpec]
"""Makes the spec of a job from the fields of its own."""


class _Submissions:
    """Makes submissions of trace jobs; jobs with the same request share a template."""

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
        pools = [pool.spec for pool in state.pools.values()]
        self._constraints = all_markets(pools) if mapping.may_use_spot else mapping.constraints
        self._geometry = mig_geometry(pools) if mapping.parts_are_slices else None
        self._queues = queues
        self._state = state
        self._remarks = remarks
        self._templates: dict[tuple[object, ...], _Template | str] = {}
        self._team_keys = {team: (team,) if team else () for team in queues}
        self._classes = _classes_by_value(state.policies)
        self.run_ms = RunTimesToCome()
        self.guess: Callable[[TraceJob], int] | None = None

    def of(self, jobs: Iterable[TraceJob]) -> Iterator[JobSubmitted]:
        run_times = self.run_ms.waiting
        for job in jobs:
            template = self._template_of(job)
            if job.submitted_ms < 0 or job.run_ms < 0:
                template = _time_problem(job)
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

    def _spec(self, job: TraceJob, template: _Template) -> JobSpec:
        deadline_ms = job.deadline_ms
        if deadline_ms is not None and deadline_ms <= job.submitted_ms:
            deadline_ms = None
        return template(
            name=job.name or job.job_id,
            priority_class=self._classes.get(job.priority, self._classes[None]),
            expected_run_ms=self._estimate_ms(job),
            deadline_ms=deadline_ms,
            similarity_keys=self._similarity_keys(job),
        )

    def _similarity_keys(self, job: TraceJob) -> tuple[str, ...]:
        """Team, user and name, by which run times are learned."""
        if not job.user and not job.name:
            return self._team_keys[job.team]
        return tuple(filter(None, (job.team, job.user, job.name)))

    def _estimate_ms(self, job: TraceJob) -> int | None:
        """A learned estimate is the guess of the stream, in place of the written one."""
        estimate = self._mapping.estimate
        if estimate is _ORACLE:
            return max(1, job.run_ms)
        if estimate is _NONE:
            return None
        estimate_ms = job.expected_ms if self.guess is None else self.guess(job)
        return estimate_ms if estimate_ms and estimate_ms > 0 else None

    def _note(self, job: TraceJob) -> None:
        if job.run_ms < 1:
            self._remarks.count("ran for less than a millisecond, counted as one")
        if job.gpu_milli % MILLI_PER_PERCENT:
            self._remarks.count("ask for a part of a GPU that is no whole percent, rounded up")
        if job.deadline_ms is not None and job.deadline_ms <= job.submitted_ms:
            self._remarks.count("had passed their deadline when submitted, run without one")

    def _template_of(self, job: TraceJob) -> _Template | str:
        """The template of all jobs with the same request, or why they can never run."""
        request_key = (
            self._queues[job.team],
            job.tasks,
            job.gpus,
            job.gpu_milli,
            () if self._mapping.any_model else job.gpu_models,
            job.cpu_milli,
            job.memory_mib,
        )
        template = self._templates.get(request_key)
        if template is None:
            template = self._make_template(TraceRequest(*request_key))
            self._templates[request_key] = template
        return template

    def _make_template(self, request: TraceRequest) -> _Template | str:
        mapping = self._mapping
        try:
            models = tuple(sorted({_catalog_name(name) for name in request.gpu_models}))
            spec = JobSpec(
                name="job",
                queue=request.queue,
                groups=task_groups(request, models, self._gpus_per_node(models)),
                priority_class=self._classes[None],
                constraints=self._constraints,
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
        if mapping.pin_label is not None:
            labels = (*spec.constraints.node_labels, (mapping.pin_label, spec.queue))
            spec = replace(spec, constraints=replace(spec.constraints, node_labels=labels))
        if self._geometry is not None:
            groups = tuple(with_slices(group, self._geometry) for group in spec.groups)
            spec = replace(spec, groups=groups)
        spec = replace(spec, checkpoint=mapping.checkpoint, retries=mapping.retries)
        shared = {f.name: getattr(spec, f.name) for f in fields(JobSpec) if f.name not in _JOBS_OWN}
        return partial(JobSpec, **shared)

    def _gpus_per_node(self, models: tuple[str, ...]) -> int:
        """GPUs of the largest node with one of these models, or of any node if none has them."""
        specs = [pool.spec for pool in self._state.pools.values()]
        fitting = [
            spec.gpus_per_node
            for spec in specs
            if not models or (spec.gpu_model and spec.gpu_model.name in models)
        ]
        return max(fitting, default=0) or max((spec.gpus_per_node for spec in specs), default=0)


def _catalog_name(name: str) -> str:
    """The catalog's name of a GPU model; anonymised models keep their own."""
    return name if name.startswith(ANONYMOUS) else find_gpu_model(name).name


def _time_problem(job: TraceJob) -> str:
    if job.submitted_ms < 0:
        return f"was submitted {-job.submitted_ms:,} ms before the trace begins"
    if job.run_ms < 0:
        return f"ran for {job.run_ms:,} ms"
    return ""


def _classes_by_value(policies: Policies) -> dict[int | None, str]:
    """Priority classes by value; None is the class for all other priorities."""
    ordered = sorted(policies.priority_classes.items(), key=lambda one: (abs(one[1]), one[0]))
    classes: dict[int | None, str] = {None: ordered[0][0]}
    for name, value in ordered:
        classes.setdefault(value, name)
    return classes

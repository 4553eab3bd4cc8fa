"""Rules for one job: no contradictions, and only names that exist."""

from __future__ import annotations

from collections.abc import Iterator

from bursar.core.admission.admission_request import AdmissionRequest, Rule
from bursar.core.admission.problem import Problem, listed, repeated, suggest
from bursar.core.quota.budget_rules import queues_below
from bursar.model.fleet.gpu import GpuModel
from bursar.model.jobs.job import OVER, JobState, MigSlice, WholeGpus
from bursar.model.units import write_duration

MOST_DEPENDENCIES = 100_000
"""In total over all members of an array."""


def group_names_are_unique(request: AdmissionRequest) -> Iterator[Problem]:
    if not request.spec.groups:
        fix = "Write at least one group of tasks."
        yield Problem(code="no-groups", field="groups", text="is empty", fix=fix)
    for name in repeated(group.name for group in request.spec.groups):
        yield Problem(
            code="duplicate-group",
            field="groups",
            text=f"has two groups named {name!r}",
            fix="Use each name once.",
        )


def elastic_ranges_are_valid(request: AdmissionRequest) -> Iterator[Problem]:
    for index, group in enumerate(request.spec.groups):
        if group.min_count is not None and group.min_count > group.count:
            yield Problem(
                code="min-over-count",
                field=f"groups[{index}].min_count",
                text=f"is {group.min_count:,}, more than count, which is {group.count:,}",
                fix=f"Write a min_count from 1 to {group.count:,}, or raise count.",
            )


def queue_exists(request: AdmissionRequest) -> Iterator[Problem]:
    tenants = request.state.tenants
    name = request.spec.queue
    queues = [one.name for one in tenants.values() if one.is_queue]
    if name not in tenants:
        yield Problem(
            code="unknown-queue",
            field="queue",
            text=f"is {name!r}, which does not exist",
            fix=suggest(name, queues, "queue"),
        )
    elif not tenants[name].is_queue:
        below = queues_below(tenants, name)
        known = f"Write one of the queues below it: {listed(below)}."
        yield Problem(
            code="not-a-queue",
            field="queue",
            text=f"is {name!r}, a tenant that is not a queue",
            fix=known if below else f"It has no queue below it. {suggest(name, queues, 'queue')}",
        )


def priority_class_exists(request: AdmissionRequest) -> Iterator[Problem]:
    name = request.spec.priority_class
    known = request.state.policies.priority_classes
    if name not in known:
        yield Problem(
            code="unknown-priority-class",
            field="priority_class",
            text=f"is {name!r}, which does not exist",
            fix=suggest(name, known, "priority class"),
        )


def times_agree(request: AdmissionRequest) -> Iterator[Problem]:
    spec = request.spec
    expected, most = spec.expected_run_ms, spec.max_run_ms
    if expected is not None and most is not None and expected > most:
        yield Problem(
            code="expected-over-max",
            field="expected_run_ms",
            text=f"is {write_duration(expected)}, more than max_run_ms, {write_duration(most)}",
            fix=f"Write an expected run time of at most {most} ms, or raise max_run_ms.",
        )
    if spec.deadline_ms is not None and spec.deadline_ms <= request.at_ms:
        late_ms = request.at_ms - spec.deadline_ms
        yield Problem(
            code="deadline-past",
            field="deadline_ms",
            text=f"is {spec.deadline_ms}, {write_duration(late_ms)} before the submission",
            fix=f"Write a time after {request.at_ms}, or leave it out.",
        )
    if spec.deadline_ms is not None and spec.slo is not None:
        yield Problem(
            code="two-deadlines",
            field="deadline_ms",
            text="is given together with slo",
            fix="Write one of them: deadline_ms, or slo with GPU time and duration.",
        )


def slo_can_be_met(request: AdmissionRequest) -> Iterator[Problem]:
    """The SLO is possible if the job starts at once with all its GPUs."""
    slo, groups = request.spec.slo, request.spec.groups
    gpus = sum(one.count * one.gpu.count for one in groups if isinstance(one.gpu, WholeGpus))
    if slo is None or not gpus:
        return
    needed_ms = -(-slo.gpu_ms // gpus)
    if needed_ms > slo.within_ms:
        least = -(-slo.gpu_ms // slo.within_ms)
        yield Problem(
            code="objective-out-of-reach",
            field="slo.within_ms",
            text=(
                f"is {write_duration(slo.within_ms)}, but the GPU time takes "
                f"{write_duration(needed_ms)} on the {gpus:,} GPUs requested"
            ),
            fix=f"Request at least {least:,} GPUs, or write within_ms of {needed_ms} or more.",
        )


def dependencies_exist(request: AdmissionRequest) -> Iterator[Problem]:
    state = request.state
    for index, name in enumerate(request.spec.depends_on):
        field = f"depends_on[{index}]"
        ended = state.finished.get(name)
        if name == request.job_id or name.startswith(f"{request.job_id}["):
            text = f"is {name!r}, the job itself"
            fix = "Name only jobs submitted before this one."
            yield Problem(code="depends-on-itself", field=field, text=text, fix=fix)
        elif name not in state.jobs and ended is None:
            yield _unknown_dependency(request, field, name)
        elif ended in OVER and ended is not JobState.SUCCEEDED:
            verb = "was" if ended is JobState.CANCELLED else "has"
            text = f"is {name!r}, which {verb} {ended}, so this job could never start"
            fix = "Submit that job again and depend on the new one."
            yield Problem(code="dependency-failed", field=field, text=text, fix=fix)
    total = len(request.spec.depends_on) * request.spec.array_size
    if total > MOST_DEPENDENCIES:
        yield Problem(
            code="too-many-dependencies",
            field="depends_on",
            text=f"has {total:,} entries over all members of the array",
            fix=f"Use at most {MOST_DEPENDENCIES:,}: let one job depend on all and the others on it.",
        )


def _unknown_dependency(request: AdmissionRequest, field: str, name: str) -> Problem:
    state = request.state
    first = f"{name}[0]"
    if first in state.jobs or first in state.finished:
        fix = f"It is an array: name its members, from {first!r} on."
    else:
        fix = suggest(name, state.jobs, "job")
    text = f"is {name!r}, which does not exist"
    return Problem(code="unknown-dependency", field=field, text=text, fix=fix)


def job_id_is_free(request: AdmissionRequest) -> Iterator[Problem]:
    state = request.state
    for job_id in job_ids(request.job_id, request.spec.array_size):
        if job_id in state.jobs or job_id in state.finished:
            yield Problem(
                code="job-id-taken",
                field="job_id",
                text=f"{job_id!r} is already taken",
                fix="Submit the job with another id.",
            )
            return


def job_ids(job_id: str, array_size: int) -> tuple[str, ...]:
    """The ids of an array's members; a single job has its own id."""
    if array_size == 1:
        return (job_id,)
    return tuple(f"{job_id}[{index}]" for index in range(array_size))


def gpu_models_exist(request: AdmissionRequest) -> Iterator[Problem]:
    known = {*request.known_models, *(model.name for model in _models_of_fleet(request))}
    for index, group in enumerate(request.spec.groups):
        for place, name in enumerate(group.gpu.models if group.gpu else ()):
            if name not in known:
                yield Problem(
                    code="unknown-gpu-model",
                    field=f"groups[{index}].gpu.models[{place}]",
                    text=f"is {name!r}, which is not a GPU model",
                    fix=suggest(name, known, "GPU model"),
                )


def mig_profiles_exist(request: AdmissionRequest) -> Iterator[Problem]:
    for index, group in enumerate(request.spec.groups):
        if not isinstance(group.gpu, MigSlice):
            continue
        wanted = group.gpu
        models = [
            model
            for model in _models_of_fleet(request)
            if model.mig is not None and (not wanted.models or model.name in wanted.models)
        ]
        profiles = [name for model in models if model.mig for name in model.mig.profile_names]
        if wanted.profile in profiles or (wanted.models and not models):
            continue
        where = listed(model.name for model in models) or "no GPU of this fleet supports MIG"
        yield Problem(
            code="unknown-mig-profile",
            field=f"groups[{index}].gpu.profile",
            text=f"is {wanted.profile!r}, a profile that no GPU model of the fleet has ({where})",
            fix=(
                suggest(wanted.profile, profiles, "MIG profile")
                if profiles
                else "Request whole GPUs or an MPS share instead."
            ),
        )


def _models_of_fleet(request: AdmissionRequest) -> list[GpuModel]:
    specs = (pool.spec for pool in request.state.pools.values())
    found = {spec.gpu_model.name: spec.gpu_model for spec in specs if spec.gpu_model}
    return [found[name] for name in sorted(found)]


JOB_RULES: tuple[Rule, ...] = (
    group_names_are_unique,
    elastic_ranges_are_valid,
    queue_exists,
    priority_class_exists,
    times_agree,
    slo_can_be_met,
    dependencies_exist,
    job_id_is_free,
    gpu_models_exist,
    mig_profiles_exist,
)

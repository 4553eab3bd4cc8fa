"""Reads Bursar's event log as a trace; the run time of a job is its useful work."""

from __future__ import annotations

from collections.abc import Iterator

from bursar.codec import UnreadableValue
from bursar.model.event import (
    AttemptExpired,
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    JobCancelled,
    JobSubmitted,
)
from bursar.model.jobs.job import JobSpec, MigSlice, MpsShare, TaskGroup, WholeGpus
from bursar.simulate.traces.input_files import TraceText
from bursar.simulate.traces.task_roles import TaskRole, merge_notes, merge_roles
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.event_log import VERSION_KEY, is_header, simulated_event
from bursar.simulate.workload.recorded_work import JobWork
from bursar.simulate.workload.trace import TraceJob

NAME = "events"
TITLE = "Bursar's own event log"

_MILLI_PER_PERCENT = 10


class _LoggedJob(JobWork):
    """A job of the log: its line, and how its last attempt ended."""

    __slots__ = ("end_ms", "final", "line", "outcome")

    def __init__(self, submitted: JobSubmitted, line: int) -> None:
        super().__init__(submitted)
        self.line = line
        self.end_ms: int | None = None
        self.outcome = ""
        self.final = ""


def recognises(text: TraceText) -> bool:
    """Whether the first line is the header of a log or a submission."""
    first = next((line for line in text.head if line.strip()), "")
    return first.startswith("{") and (
        f'"{VERSION_KEY}"' in first or '"type":"JobSubmitted"' in first.replace(" ", "")
    )


def read(text: TraceText, builder: TraceBuilder) -> None:
    """Follows each job from its submission, then adds the jobs to the trace."""
    jobs: dict[str, _LoggedJob] = {}
    now_ms = 0
    for line, event in _events(text, builder):
        now_ms = max(now_ms, event.at_ms)
        if isinstance(event, JobSubmitted):
            jobs.setdefault(event.job_id, _LoggedJob(event, line))
            continue
        job = jobs.get(getattr(event, "job_id", ""))
        if job is not None:
            _apply(job, event)
    for job in jobs.values():
        run_ms = _run_ms(job, now_ms, builder)
        if run_ms is not None:
            builder.add(job.line, _job(job, run_ms, builder))


def _events(text: TraceText, builder: TraceBuilder) -> Iterator[tuple[int, Event]]:
    for line, content in enumerate(text.lines, start=1):
        if not content.strip():
            continue
        try:
            if not is_header(content):
                yield line, simulated_event(content)
        except UnreadableValue as problem:
            builder.reject(line, f"is not an event ({problem})")


def _apply(job: _LoggedJob, event: Event) -> None:
    """An end is not final until no other attempt starts."""
    job.apply(event)
    match event:
        case AttemptStarted():
            job.end_ms = None
        case AttemptSucceeded():
            job.end_ms, job.outcome = event.at_ms, "succeeded"
        case AttemptFailed():
            job.end_ms, job.outcome = event.at_ms, "failed"
        case AttemptPreempted():
            job.end_ms, job.outcome = event.at_ms, "preempted"
        case AttemptExpired():
            job.final = "timeout"
        case JobCancelled():
            job.final = "cancelled"
        case _:
            pass


def _run_ms(job: _LoggedJob, now_ms: int, builder: TraceBuilder) -> int | None:
    if job.since_ms is None:
        builder.count("jobs never started, left out")
        return None
    if job.end_ms is None:
        builder.count("jobs still running: their run time so far")
        job.outcome = "running"
    job.save(now_ms if job.end_ms is None else job.end_ms)
    return job.done_ms


def _job(job: _LoggedJob, run_ms: int, builder: TraceBuilder) -> TraceJob:
    spec: JobSpec = job.submitted.spec
    roles = [_role(group, builder) for group in spec.groups] or [TaskRole(tasks=1)]
    for note in merge_notes(roles):
        builder.count(note)
    role = merge_roles(roles)
    return TraceJob(
        job_id=job.submitted.job_id,
        submitted_ms=job.submitted.at_ms,
        run_ms=run_ms,
        team=spec.queue,
        name=spec.name,
        tasks=role.tasks,
        gpus=role.gpus,
        gpu_milli=role.gpu_fraction_milli,
        gpu_models=role.gpu_models,
        cpu_milli=role.cpu_milli,
        memory_mib=role.memory_mib,
        expected_ms=spec.expected_run_ms,
        deadline_ms=spec.deadline_ms,
        priority=job.submitted.priority,
        outcome=job.final or job.outcome,
    )


def _role(group: TaskGroup, builder: TraceBuilder) -> TaskRole:
    gpu_milli = 0
    models: tuple[str, ...] = ()
    match group.gpu:
        case WholeGpus(count=count, models=models):
            gpu_milli = count * 1_000
        case MpsShare(percent=percent, models=models):
            gpu_milli = percent * _MILLI_PER_PERCENT
        case MigSlice():
            builder.count(
                "task groups of MIG slices, which a trace cannot express: read as no GPUs"
            )
        case None:
            pass
    return TaskRole(
        tasks=group.count,
        gpu_milli=gpu_milli,
        gpu_models=models,
        cpu_milli=group.cpu_milli,
        memory_mib=group.memory_mib,
    )

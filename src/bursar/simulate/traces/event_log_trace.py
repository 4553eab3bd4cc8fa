"""Our own event log as a workload: what was asked for, and how much work each job turned out to be.

The work of a job is the time that counted: what its checkpoints saved, and its last attempt to its end.
Time that a preemption or a failure threw away was no part of it, and an hour with half of an elastic
gang is half an hour of work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bursar.codec import UnreadableValue
from bursar.model.event import (
    AttemptAssigned,
    AttemptExpired,
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    Event,
    JobCancelled,
    JobSubmitted,
)
from bursar.model.jobs.job import JobSpec, MigSlice, MpsShare, TaskGroup, WholeGpus
from bursar.simulate.traces.input_files import TraceText
from bursar.simulate.traces.task_roles import TaskRole, as_one, remarks_on
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.event_log import VERSION_KEY, is_header, simulated_event
from bursar.simulate.workload.trace import TraceJob

NAME = "events"
TITLE = "Bursar's own event log"

_MILLI_PER_PERCENT = 10


@dataclass(slots=True)
class _Story:
    """One job so far. ``since_ms`` is the start of work that is not yet safe; None while it waits."""

    line: int
    submitted: JobSubmitted
    tasks: int
    saved_ms: float = 0.0
    since_ms: int | None = None
    last_ms: int | None = None
    outcome: str = ""
    final: str = ""
    has_run: bool = False

    @property
    def restart_ms(self) -> int:
        """What a later attempt spends on loading what was saved, which is not work."""
        return self.submitted.spec.checkpoint.restart_ms

    def work_ms(self, until_ms: int) -> float:
        """What was done since the last safe moment, as time at full size."""
        assert self.since_ms is not None, "it started"
        full = sum(group.count for group in self.submitted.spec.groups)
        return max(0, until_ms - self.since_ms) * self.tasks / max(1, full)


def recognises(text: TraceText) -> bool:
    """The header of a log, or a submission."""
    first = next((line for line in text.head if line.strip()), "")
    return first.startswith("{") and (
        f'"{VERSION_KEY}"' in first or '"type":"JobSubmitted"' in first.replace(" ", "")
    )


def read(text: TraceText, draft: TraceBuilder) -> None:
    """Follow each job from its submission, then make the jobs."""
    stories: dict[str, _Story] = {}
    now_ms = 0
    for line, event in _events(text, draft):
        now_ms = max(now_ms, event.at_ms)
        if isinstance(event, JobSubmitted):
            tasks = sum(group.count for group in event.spec.groups)
            stories.setdefault(event.job_id, _Story(line, event, tasks))
            continue
        job_id = getattr(event, "job_id", None)
        story = stories.get(job_id) if job_id is not None else None
        if story is not None:
            _follow(story, event)
    for story in stories.values():
        run_ms = _work_ms(story, now_ms, draft)
        if run_ms is not None:
            draft.add(story.line, _job(story, run_ms, draft))


def _events(text: TraceText, draft: TraceBuilder) -> Iterator[tuple[int, Event]]:
    for line, content in enumerate(text.lines, start=1):
        if not content.strip():
            continue
        try:
            if not is_header(content):
                yield line, simulated_event(content)
        except UnreadableValue as problem:
            draft.reject(line, f"is not an event ({problem})")


def _follow(story: _Story, event: Event) -> None:
    """An end may turn out not to be the last: a new attempt takes it back."""
    match event:
        case AttemptAssigned():
            story.tasks = sum(task.count for task in event.placement.all_tasks)
        case AttemptStarted():
            reload_ms = story.restart_ms if story.has_run else 0
            story.since_ms, story.last_ms = event.at_ms + reload_ms, None
            story.has_run = True
        case CheckpointSaved() if story.since_ms is not None:
            story.saved_ms += story.work_ms(event.at_ms)
            story.since_ms = event.at_ms
        case AttemptSucceeded():
            story.last_ms, story.outcome = event.at_ms, "succeeded"
        case AttemptFailed():
            story.last_ms, story.outcome = event.at_ms, "failed"
        case AttemptPreempted():
            story.last_ms, story.outcome = event.at_ms, "preempted"
        case AttemptExpired():
            story.final = "timeout"
        case JobCancelled():
            story.final = "cancelled"
        case _:
            pass


def _work_ms(story: _Story, now_ms: int, draft: TraceBuilder) -> int | None:
    if story.since_ms is None:
        draft.count("jobs never started, left out")
        return None
    if story.last_ms is None:
        draft.count("jobs still running: their run time so far")
        story.outcome = "running"
        return round(story.saved_ms + story.work_ms(now_ms))
    return round(story.saved_ms + story.work_ms(story.last_ms))


def _job(story: _Story, run_ms: int, draft: TraceBuilder) -> TraceJob:
    spec: JobSpec = story.submitted.spec
    roles = [_role(group, draft) for group in spec.groups] or [TaskRole(tasks=1)]
    for remark in remarks_on(roles):
        draft.count(remark)
    role = as_one(roles)
    return TraceJob(
        job_id=story.submitted.job_id,
        submitted_ms=story.submitted.at_ms,
        run_ms=run_ms,
        team=spec.queue,
        name=spec.name,
        tasks=role.tasks,
        gpus=role.gpus,
        gpu_milli=role.part_milli,
        gpu_models=role.gpu_models,
        cpu_milli=role.cpu_milli,
        memory_mib=role.memory_mib,
        expected_ms=spec.expected_run_ms,
        deadline_ms=spec.deadline_ms,
        priority=story.submitted.priority,
        outcome=story.final or story.outcome,
    )


def _role(group: TaskGroup, draft: TraceBuilder) -> TaskRole:
    gpu_milli = 0
    models: tuple[str, ...] = ()
    match group.gpu:
        case WholeGpus(count=count, models=models):
            gpu_milli = count * 1_000
        case MpsShare(percent=percent, models=models):
            gpu_milli = percent * _MILLI_PER_PERCENT
        case MigSlice():
            draft.count("task groups of MIG slices, which a trace cannot say: taken without GPUs")
        case None:
            pass
    return TaskRole(
        tasks=group.count,
        gpu_milli=gpu_milli,
        gpu_models=models,
        cpu_milli=group.cpu_milli,
        memory_mib=group.memory_mib,
    )

"""Alibaba's PAI (GPU trace 2020): the full task table, whose rows are the roles of jobs.

The published table has no line of column names; they are in a ``.header`` file beside it. A job table
beside the task table adds users and the moment of submission; without it, a job is submitted when its
first task starts.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from sys import intern

from bursar.simulate.traces.fields import (
    RowProblem,
    elapsed_ms,
    parse_count,
    parse_outcome,
    parse_scaled,
    parse_seconds,
)
from bursar.simulate.traces.input_files import TraceText, open_trace
from bursar.simulate.traces.table import Columns, Fields, header_of, table_rows
from bursar.simulate.traces.task_roles import TaskRole, merge_notes, merge_roles
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob
from studies.formats.pai import pai_models

NAME = "pai-tasks"
TITLE = "Alibaba PAI (GPU trace 2020), pai_task_table.csv"

_MIB_PER_GB = 1_024
_MILLI_PER_PERCENT = 10
_TASK_COLUMNS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
_JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")


@dataclass(slots=True)
class _Parts:
    """The rows of one job so far."""

    line: int
    start_ms: int
    end_ms: int
    status: str
    roles: list[TaskRole] = field(default_factory=list)


def recognises(text: TraceText) -> bool:
    """By its column names or, as it has none, by its file's name."""
    named = set(_TASK_COLUMNS) <= set(header_of(text))
    return named or "pai_task_table" in text.name


def read(text: TraceText, builder: TraceBuilder) -> None:
    """Gather the roles of each job, then make the jobs."""
    jobs: dict[str, _Parts] = {}
    for line, fields in _rows(text, builder, _TASK_COLUMNS):
        try:
            _add_role(jobs, line, fields, builder)
        except RowProblem as problem:
            builder.reject(line, str(problem))
    submissions = _submissions(text.path)
    if not submissions:
        builder.add_note(
            "no pai_job_table.csv beside it: jobs are submitted when their first task starts"
        )
    for name, parts in jobs.items():
        builder.add(parts.line, _job(name, parts, submissions, builder))


def _add_role(jobs: dict[str, _Parts], line: int, fields: Fields, builder: TraceBuilder) -> None:
    name, _task, instances, status, start, end, cpu, memory, gpu, gpu_type = fields
    if not start or not end:
        builder.count("tasks without a start or an end (waiting or running), left out")
        return
    gpu_milli = parse_scaled(gpu, "plan_gpu", _MILLI_PER_PERCENT) if gpu else 0
    role = TaskRole(
        tasks=parse_count(instances, "inst_num", 1),
        gpu_milli=gpu_milli,
        gpu_models=pai_models(gpu_type) if gpu_milli else (),
        cpu_milli=parse_scaled(cpu, "plan_cpu", _MILLI_PER_PERCENT) if cpu else 0,
        memory_mib=parse_scaled(memory, "plan_mem", _MIB_PER_GB) if memory else 0,
    )
    start_ms, end_ms = parse_seconds(start, "start_time"), parse_seconds(end, "end_time")
    elapsed_ms(start_ms, end_ms, "end_time")
    parts = jobs.setdefault(name, _Parts(line, start_ms, end_ms, status))
    parts.start_ms = min(parts.start_ms, start_ms)
    parts.end_ms = max(parts.end_ms, end_ms)
    parts.roles.append(role)


def _job(
    name: str, parts: _Parts, submissions: dict[str, tuple[str, int]], builder: TraceBuilder
) -> TraceJob:
    for note in merge_notes(parts.roles):
        builder.count(note)
    role = merge_roles(parts.roles)
    user, submitted_ms = submissions.get(name, ("", parts.start_ms))
    return TraceJob(
        job_id=name,
        submitted_ms=submitted_ms,
        run_ms=parts.end_ms - parts.start_ms,
        user=user,
        tasks=role.tasks,
        gpus=role.gpus,
        gpu_milli=role.gpu_fraction_milli,
        gpu_models=role.gpu_models,
        cpu_milli=role.cpu_milli,
        memory_mib=role.memory_mib,
        outcome=parse_outcome(parts.status),
    )


def _rows(
    text: TraceText, builder: TraceBuilder, names: tuple[str, ...]
) -> Iterator[tuple[int, Fields]]:
    """A table that may lack its line of names; what is known of their order is then used."""
    columns = Columns(required=names)
    if header_of(text)[:1] == [names[0]]:
        yield from table_rows(text, builder, columns)
        return
    named = chain((",".join(names) + "\n",), text.lines)
    with_names = TraceText(name=text.name, path=text.path, head=text.head, lines=named)
    for line, fields in table_rows(with_names, builder, columns):
        yield line - 1, fields


def _submissions(tasks: Path) -> dict[str, tuple[str, int]]:
    """Who submitted a job and when, from the job table beside the task table."""
    beside = tasks.with_name(tasks.name.replace("task", "job"))
    if beside == tasks or not beside.is_file():
        return {}
    found: dict[str, tuple[str, int]] = {}
    with open_trace(beside) as text:
        for row in csv.reader(text.lines):
            fields = dict(zip(_JOB_COLUMNS, row, strict=False))
            start = fields.get("start_time", "")
            if start.replace(".", "", 1).isdigit():
                found[fields["job_name"]] = (
                    intern(fields["user"]),
                    parse_seconds(start, "start_time"),
                )
    return found

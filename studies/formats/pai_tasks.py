"""Alibaba's PAI (GPU trace 2020): the full task table, one row per role of a job.

The published table has no header; the column names are in a separate ``.header`` file. A job table in
the same folder adds users and times of submission; without it, a job is submitted when its first task
starts.
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
class _JobRows:
    """The rows of one job so far, combined."""

    line: int
    start_ms: int
    end_ms: int
    status: str
    roles: list[TaskRole] = field(default_factory=list)


def recognises(text: TraceText) -> bool:
    """Recognises the header or, as the published file has none, the file name."""
    has_header = set(_TASK_COLUMNS) <= set(header_of(text))
    return has_header or "pai_task_table" in text.name


def read(text: TraceText, builder: TraceBuilder) -> None:
    """Collects the roles of each job, then adds the jobs to the trace."""
    jobs: dict[str, _JobRows] = {}
    for line, fields in _rows(text, builder, _TASK_COLUMNS):
        try:
            _add_role(jobs, line, fields, builder)
        except RowProblem as problem:
            builder.reject(line, str(problem))
    submissions = _submissions(text.path)
    if not submissions:
        builder.add_note(
            "no pai_job_table.csv in its folder: jobs are submitted when their first task starts"
        )
    for name, rows in jobs.items():
        builder.add(rows.line, _job(name, rows, submissions, builder))


def _add_role(jobs: dict[str, _JobRows], line: int, fields: Fields, builder: TraceBuilder) -> None:
    name, _task, instances, status, start, end, cpu, memory, gpu, gpu_type = fields
    if not start or not end:
        builder.count("tasks left out without a start or an end (waiting or running)")
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
    rows = jobs.setdefault(name, _JobRows(line, start_ms, end_ms, status))
    rows.start_ms = min(rows.start_ms, start_ms)
    rows.end_ms = max(rows.end_ms, end_ms)
    rows.roles.append(role)


def _job(
    name: str, rows: _JobRows, submissions: dict[str, tuple[str, int]], builder: TraceBuilder
) -> TraceJob:
    for note in merge_notes(rows.roles):
        builder.count(note)
    role = merge_roles(rows.roles)
    user, submitted_ms = submissions.get(name, ("", rows.start_ms))
    return TraceJob(
        job_id=name,
        submitted_ms=submitted_ms,
        run_ms=rows.end_ms - rows.start_ms,
        user=user,
        tasks=role.tasks,
        gpus=role.gpus,
        gpu_milli=role.gpu_fraction_milli,
        gpu_models=role.gpu_models,
        cpu_milli=role.cpu_milli,
        memory_mib=role.memory_mib,
        outcome=parse_outcome(rows.status),
    )


def _rows(
    text: TraceText, builder: TraceBuilder, names: tuple[str, ...]
) -> Iterator[tuple[int, Fields]]:
    """Yields the rows of a table; one without a header has the documented columns."""
    columns = Columns(required=names)
    if header_of(text)[:1] == [names[0]]:
        yield from table_rows(text, builder, columns)
        return
    lines = chain((",".join(names) + "\n",), text.lines)
    with_header = TraceText(name=text.name, path=text.path, head=text.head, lines=lines)
    for line, fields in table_rows(with_header, builder, columns):
        yield line - 1, fields


def _submissions(tasks: Path) -> dict[str, tuple[str, int]]:
    """The user and the time of each submission, from the job table in the same folder."""
    job_table = tasks.with_name(tasks.name.replace("task", "job"))
    if job_table == tasks or not job_table.is_file():
        return {}
    submissions: dict[str, tuple[str, int]] = {}
    with open_trace(job_table) as text:
        for row in csv.reader(text.lines):
            fields = dict(zip(_JOB_COLUMNS, row, strict=False))
            start = fields.get("start_time", "")
            if start.replace(".", "", 1).isdigit():
                submissions[fields["job_name"]] = (
                    intern(fields["user"]),
                    parse_seconds(start, "start_time"),
                )
    return submissions

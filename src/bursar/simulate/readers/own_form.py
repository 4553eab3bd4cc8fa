"""Our own form: the columns that the README of this package documents, in CSV or in Parquet."""

from __future__ import annotations

from sys import intern

from bursar.simulate.readers.draft import TraceDraft
from bursar.simulate.readers.gpu_names import gpu_models
from bursar.simulate.readers.table import Columns, Fields, TableFormat
from bursar.simulate.readers.values import required, seconds, whole
from bursar.simulate.trace import TraceJob

COLUMNS = Columns(
    required=("job_id", "submit_s", "run_s", "gpus"),
    optional=(
        "team",
        "user",
        "name",
        "tasks",
        "gpu_milli",
        "gpu_models",
        "cpu_milli",
        "memory_mib",
        "expected_s",
        "deadline_s",
        "priority",
        "outcome",
    ),
)


def make_job(fields: Fields, _line: int, _draft: TraceDraft) -> TraceJob:
    """Every empty field is the default of ``TraceJob``."""
    (job_id, submit, run, gpus, team, user, name, tasks, milli, models, cpu, memory, expected,
     deadline, priority, ended) = fields  # fmt: skip
    return TraceJob(
        job_id=required(job_id, "job_id"),
        submitted_ms=seconds(submit, "submit_s"),
        run_ms=seconds(run, "run_s"),
        team=intern(team) if team else "all",
        user=intern(user),
        name=name,
        tasks=whole(tasks, "tasks", 1) if tasks else 1,
        gpus=whole(gpus, "gpus"),
        gpu_milli=whole(milli, "gpu_milli") if milli else 0,
        gpu_models=gpu_models(models) if models else (),
        cpu_milli=whole(cpu, "cpu_milli") if cpu else 0,
        memory_mib=whole(memory, "memory_mib") if memory else 0,
        expected_ms=seconds(expected, "expected_s") if expected else None,
        deadline_ms=seconds(deadline, "deadline_s") if deadline else None,
        priority=whole(priority, "priority", -(2**31)) if priority else 0,
        outcome=intern(ended),
    )


def fields_of(job: TraceJob) -> Fields:
    """The way back: what ``make_job`` reads as this very job."""
    return (
        job.job_id,
        _in_seconds(job.submitted_ms),
        _in_seconds(job.run_ms),
        str(job.gpus),
        "" if job.team == "all" else job.team,
        job.user,
        job.name,
        "" if job.tasks == 1 else str(job.tasks),
        str(job.gpu_milli or ""),
        "|".join(job.gpu_models),
        str(job.cpu_milli or ""),
        str(job.memory_mib or ""),
        "" if job.expected_ms is None else _in_seconds(job.expected_ms),
        "" if job.deadline_ms is None else _in_seconds(job.deadline_ms),
        str(job.priority or ""),
        job.outcome,
    )


def _in_seconds(time_ms: int) -> str:
    whole_seconds, rest = divmod(time_ms, 1_000)
    return f"{whole_seconds}.{rest:03d}" if rest else str(whole_seconds)


FORMAT = TableFormat(name="csv", title="our own CSV form", columns=COLUMNS, make_job=make_job)

"""Chronus (SoCC'21): Philly jobs with deadlines.

Times are in minutes, which the file does not state: 30,940 jobs over 20,151 units are then the two
weeks of the paper, with Philly's GPU time per job. Deadlines count from the submission of a job; of
several, the first is used. A best-effort job has none. A few jobs have no GPU; the artifact leaves
them out, as ``gpus_only`` does.
"""

from __future__ import annotations

from sys import intern

from bursar.simulate.traces.fields import parse_count, parse_scaled, required
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

MINUTE_MS = 60_000


def _job(fields: Fields, _line: int, _builder: TraceBuilder) -> TraceJob:
    job_id, user, gpus, submitted, duration, expected, best_effort, model, kind = fields
    submitted_ms = parse_scaled(submitted, "submit_time", MINUTE_MS)
    allowed_ms = parse_scaled(expected.split("-", 1)[0], "expect_time_list", MINUTE_MS)
    has_deadline = kind != "best" and best_effort != "1"
    return TraceJob(
        job_id=required(job_id, "job_id"),
        submitted_ms=submitted_ms,
        run_ms=parse_scaled(duration, "duration", MINUTE_MS),
        team=intern(user) if user else "all",
        name=intern(model),
        gpus=parse_count(gpus, "num_gpu"),
        deadline_ms=submitted_ms + allowed_ms if has_deadline else None,
    )


FORMAT = TableFormat(
    name="chronus",
    title="Chronus (SoCC'21), Philly jobs with deadlines",
    columns=Columns(
        required=(
            "job_id",
            "user",
            "num_gpu",
            "submit_time",
            "duration",
            "expect_time_list",
            "best_effort",
        ),
        optional=("model_name", "job_type"),
    ),
    make_job=_job,
)

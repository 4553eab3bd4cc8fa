"""A minimal form for comparing simulators: one job per line."""

from __future__ import annotations

from sys import intern

from bursar.simulate.traces.fields import parse_count, parse_seconds, required
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob


def _job(fields: Fields, _line: int, _builder: TraceBuilder) -> TraceJob:
    job_id, submit, gpus, duration, team = fields
    return TraceJob(
        job_id=required(job_id, "job_id"),
        submitted_ms=parse_seconds(submit, "submit_s"),
        run_ms=parse_seconds(duration, "duration_s"),
        team=intern(team) if team else "all",
        gpus=parse_count(gpus, "num_gpus"),
    )


FORMAT = TableFormat(
    name="bench",
    title="cross-simulator bench",
    columns=Columns(
        required=("job_id", "submit_s", "num_gpus", "duration_s"),
        optional=("vc",),
    ),
    make_job=_job,
)

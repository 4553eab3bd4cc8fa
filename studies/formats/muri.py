"""Muri's traces (SIGCOMM'22), derived from Philly; times are in milliseconds."""

from __future__ import annotations

from sys import intern

from bursar.simulate.traces.fields import parse_count, parse_scaled, required
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob


def _job(fields: Fields, _line: int, _builder: TraceBuilder) -> TraceJob:
    job_id, gpus, submitted, duration, model, _iteration, priority = fields
    return TraceJob(
        job_id=required(job_id, "job_id"),
        submitted_ms=parse_scaled(submitted, "submit_time", 1),
        run_ms=parse_scaled(duration, "duration", 1),
        name=intern(model),
        gpus=parse_count(gpus, "num_gpu", 1),
        priority=parse_count(priority, "priority") if priority else 0,
    )


FORMAT = TableFormat(
    name="muri",
    title="Muri (SIGCOMM'22), Philly-derived",
    columns=Columns(
        required=("job_id", "num_gpu", "submit_time", "duration", "model_name", "iteration_time"),
        optional=("priority",),
    ),
    make_job=_job,
)

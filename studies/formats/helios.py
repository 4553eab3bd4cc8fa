"""SenseTime's Helios (SC'21): the re-based slice, with times in microseconds since its start.

The walltime limit in the slice equals the run time. It is left out, because it would tell a scheduler
the future.
"""

from __future__ import annotations

from sys import intern

from bursar.simulate.traces.fields import (
    parse_count,
    parse_outcome,
    parse_scaled,
    parse_seconds,
    per_node,
    required,
)
from bursar.simulate.traces.gpu_names import gpu_models
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

MICROSECONDS_PER_MS = 1_000


def _job(fields: Fields, _line: int, _builder: TraceBuilder) -> TraceJob:
    job_id, team, submitted, chips, nodes, duration, user, kind, model, state = fields
    tasks, gpus = per_node(parse_count(chips, "num_chips"), parse_count(nodes, "num_nodes", 1))
    return TraceJob(
        job_id=required(job_id, "job_id"),
        submitted_ms=round(parse_scaled(submitted, "submit_time", 1) / MICROSECONDS_PER_MS),
        run_ms=parse_seconds(duration, "duration_s"),
        team=intern(team) if team else "all",
        user=intern(user),
        name=intern(kind),
        tasks=tasks,
        gpus=gpus,
        gpu_models=gpu_models(model),
        outcome=parse_outcome(state),
    )


FORMAT = TableFormat(
    name="helios",
    title="SenseTime Helios (SC'21), re-based slice",
    columns=Columns(
        required=("job_id", "tenant", "submit_time", "num_chips", "num_nodes", "duration_s"),
        optional=("user", "class", "chip_type", "final_status"),
    ),
    make_job=_job,
)

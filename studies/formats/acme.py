"""Shanghai AI Lab's Acme (NSDI'24) and the full logs of Helios (SC'21), which share columns.

Acme documents ``duration`` as end minus start, but in Kalos it is end minus submission. So the run time
is computed from start and end, and ``duration`` is used only if one of them is missing.
"""

from __future__ import annotations

from sys import intern

from bursar.simulate.traces.fields import (
    RowProblem,
    elapsed_ms,
    parse_count,
    parse_outcome,
    parse_scaled,
    parse_seconds,
    parse_time,
    per_node,
    required,
)
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

_REQUIRED = ("job_id", "node_num", "gpu_num", "state", "submit_time", "start_time", "end_time")
_OPTIONAL = ("duration", "user", "vc", "cpu_num", "mem_per_pod_GB", "type")
_MIB_PER_GB = 1_024


def _job(fields: Fields, _line: int, builder: TraceBuilder) -> TraceJob | None:
    job_id, nodes, gpus, state, submitted, started, ended, *rest = fields
    duration, user, team, cpus, memory_gb, kind = rest
    if not started and not ended:
        builder.count("jobs never started, left out")
        return None
    total = parse_count(gpus, "gpu_num")
    tasks, each = per_node(total, parse_count(nodes, "node_num", 1))
    if started and ended:
        run_ms = elapsed_ms(
            parse_time(started, "start_time"), parse_time(ended, "end_time"), "end_time"
        )
    elif duration:
        run_ms = parse_seconds(duration, "duration")
    else:
        raise RowProblem("has neither a duration nor both start and end")
    return TraceJob(
        job_id=required(job_id, "job_id"),
        submitted_ms=parse_time(submitted, "submit_time"),
        run_ms=run_ms,
        team=intern(team) if team else "all",
        user=intern(user),
        name=intern(kind),
        tasks=tasks,
        gpus=each,
        cpu_milli=parse_scaled(cpus, "cpu_num", 1_000) // tasks if cpus else 0,
        memory_mib=parse_scaled(memory_gb, "mem_per_pod_GB", _MIB_PER_GB) if memory_gb else 0,
        outcome=parse_outcome(state),
    )


FORMAT = TableFormat(
    name="acme",
    title="Shanghai AI Lab Acme (NSDI'24): trace_seren.csv, trace_kalos.csv",
    columns=Columns(required=_REQUIRED, optional=_OPTIONAL),
    make_job=_job,
)

HELIOS_LOG = TableFormat(
    name="helios-log",
    title="SenseTime Helios (SC'21), full cluster_log.csv",
    columns=Columns(
        required=(*_REQUIRED, "duration", "user", "vc"),
        optional=("cpu_num", "mem_per_pod_GB", "type"),
    ),
    make_job=_job,
)

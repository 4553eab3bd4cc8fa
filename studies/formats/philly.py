"""Microsoft's Philly (ATC'19): the job list from the Pollux and Sia artifacts.

The list has no job ids. The id of a job is its line number, padded so that ids sort like lines.
"""

from __future__ import annotations

from sys import intern

from bursar.simulate.traces.fields import parse_count, parse_seconds, parse_time
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob


def _job(fields: Fields, line: int, _builder: TraceBuilder) -> TraceJob:
    submitted, duration, gpus, cluster = fields
    return TraceJob(
        job_id="philly-" + str(line - 1).zfill(7),
        submitted_ms=parse_time(submitted, "timestamp"),
        run_ms=parse_seconds(duration, "duration"),
        team=intern(cluster) if cluster else "all",
        gpus=parse_count(gpus, "num_gpus", 1),
    )


FORMAT = TableFormat(
    name="philly",
    title="Microsoft Philly (ATC'19), the filtered job list",
    columns=Columns(required=("timestamp", "duration", "num_gpus", "cluster")),
    make_job=_job,
)

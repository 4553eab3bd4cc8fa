"""Hydra: jobs of Alibaba's PAI with deadlines and a run time for each of three GPU types.

A trace job has one run time, so each GPU type is a format: ``hydra`` (A100), ``hydra-v100`` and
``hydra-2080ti``. Every job has one GPU.
"""

from __future__ import annotations

from bursar.simulate.traces.fields import parse_seconds, required
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

NO_DEADLINE = "inf"


def _job(fields: Fields, _line: int, _builder: TraceBuilder) -> TraceJob:
    name, submitted, deadline, run = fields[:4]
    return TraceJob(
        job_id=required(name, "job_name"),
        submitted_ms=parse_seconds(submitted, "norm_job_submit_time"),
        run_ms=parse_seconds(run, "run time"),
        gpus=1,
        deadline_ms=None if deadline == NO_DEADLINE else parse_seconds(deadline, "ddl"),
    )


def _format(name: str, column: str) -> TableFormat:
    others = tuple(one for one in ("A100", "V100", "GTX2080Ti") if one != column)
    return TableFormat(
        name=name,
        title=f"Hydra, PAI jobs with deadlines; run time on {column}",
        columns=Columns(required=("job_name", "norm_job_submit_time", "ddl", column, *others)),
        make_job=_job,
        notes=(f"run times are on {column}",),
    )


FORMAT = _format("hydra", "A100")
ON_V100 = _format("hydra-v100", "V100")
ON_2080TI = _format("hydra-2080ti", "GTX2080Ti")

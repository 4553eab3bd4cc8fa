"""Alibaba's PAI (GPU trace 2020, NSDI'22): the 100,000-job sample that its simulator reads.

``num_gpu`` and ``num_cpu`` are those of one instance, and an instance may have a fraction of a GPU.
"""

from __future__ import annotations

from sys import intern

from bursar.simulate.traces.fields import parse_count, parse_scaled, parse_seconds, required
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.task_roles import TaskRole, merge_notes
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob
from studies.formats.openb import gpu_models_or_anonymous

ANONYMOUS_TYPES = ("MISC",)
NO_GPU_TYPE = "CPU"


def pai_models(gpu_type: str) -> tuple[str, ...]:
    """Returns the GPU models; ``MISC`` means boards of older generations, not distinguished."""
    if gpu_type.upper() == NO_GPU_TYPE:
        return ()
    return gpu_models_or_anonymous(gpu_type, ANONYMOUS_TYPES)


def _job(fields: Fields, _line: int, builder: TraceBuilder) -> TraceJob:
    job_id, instances, submitted, gpus, duration, gpu_type, cpus, user, group, expected = fields
    role = TaskRole(
        tasks=parse_count(instances, "num_inst", 1) if instances else 1,
        gpu_milli=parse_scaled(gpus, "num_gpu", 1_000) if gpus else 0,
        gpu_models=pai_models(gpu_type),
        cpu_milli=parse_scaled(cpus, "num_cpu", 1_000) if cpus else 0,
    )
    for note in merge_notes((role,)):
        builder.count(note)
    return TraceJob(
        job_id=required(job_id, "job_id"),
        submitted_ms=parse_seconds(submitted, "submit_time"),
        run_ms=parse_seconds(duration, "duration"),
        user=intern(user),
        name=intern(group),
        tasks=role.tasks,
        gpus=role.gpus,
        gpu_milli=role.gpu_fraction_milli,
        gpu_models=role.gpu_models if role.gpu_milli else (),
        cpu_milli=role.cpu_milli,
        expected_ms=parse_seconds(expected, "group_gpu_dur") if expected else None,
    )


FORMAT = TableFormat(
    name="pai",
    title="Alibaba PAI (GPU trace 2020), the simulator's 100K sample",
    columns=Columns(
        required=("job_id", "num_inst", "submit_time", "num_gpu", "duration", "gpu_type"),
        optional=("num_cpu", "user", "group", "group_gpu_dur"),
    ),
    make_job=_job,
)

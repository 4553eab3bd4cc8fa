"""Alibaba's openb cluster (GPU trace 2023, FGD at ATC'23): pods that request fractions of GPUs.

Pods that were never scheduled are included, because placement studies place them too; their run time
is unknown, and the time they waited is used instead. Some of the resampled variants have no times:
they are lists of pods to place.
"""

from __future__ import annotations

from functools import cache
from sys import intern

from bursar.simulate.traces.fields import (
    RowProblem,
    elapsed_ms,
    parse_count,
    parse_outcome,
    parse_seconds,
    required,
)
from bursar.simulate.traces.gpu_names import ANONYMOUS, gpu_model
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

ANONYMOUS_TYPES = ("G1", "G2", "G3")
WHOLE_GPU_MILLI = 1_000


def _job(fields: Fields, _line: int, builder: TraceBuilder) -> TraceJob:
    name, cpu, memory, gpus, milli, created, deleted, models, qos, phase, scheduled = fields
    created_ms = parse_seconds(created, "creation_time") if created else 0
    started_ms = parse_seconds(scheduled, "scheduled_time") if scheduled else created_ms
    run_ms = (
        elapsed_ms(started_ms, parse_seconds(deleted, "deletion_time"), "deletion_time")
        if deleted
        else 0
    )
    whole_gpus, gpu_milli = _share(parse_count(gpus, "num_gpu"), parse_count(milli, "gpu_milli"))
    job = TraceJob(
        job_id=required(name, "name"),
        submitted_ms=created_ms,
        run_ms=run_ms,
        team=intern(qos) if qos else "all",
        gpus=whole_gpus,
        gpu_milli=gpu_milli,
        gpu_models=gpu_models_or_anonymous(models, ANONYMOUS_TYPES),
        cpu_milli=parse_count(cpu, "cpu_milli"),
        memory_mib=parse_count(memory, "memory_mib"),
        outcome=parse_outcome(phase),
    )
    if not created or not deleted:
        builder.count("pods without times: submitted at the start, run time 0")
    elif not scheduled:
        builder.count("pods never scheduled: the time they waited is used as their run time")
    return job


@cache
def gpu_models_or_anonymous(names: str, anonymous: tuple[str, ...]) -> tuple[str, ...]:
    """Parses models where the publisher replaced some names by letters."""
    return tuple(
        f"{ANONYMOUS}{name.lower()}" if name.upper() in anonymous else gpu_model(name)
        for name in names.split("|")
        if name
    )


def _share(gpus: int, milli: int) -> tuple[int, int]:
    """Returns whole GPUs, and the thousandths of a shared one."""
    if milli > WHOLE_GPU_MILLI:
        raise RowProblem(f"gpu_milli is {milli}, more than one GPU")
    if gpus == 1 and 0 < milli < WHOLE_GPU_MILLI:
        return 0, milli
    if gpus and milli != WHOLE_GPU_MILLI:
        raise RowProblem(f"requests {gpus} GPUs with gpu_milli {milli}; more than 1 must be whole")
    return gpus, 0


FORMAT = TableFormat(
    name="openb",
    title="Alibaba openb pods (GPU trace 2023)",
    columns=Columns(
        required=("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
        optional=(
            "creation_time",
            "deletion_time",
            "gpu_spec",
            "qos",
            "pod_phase",
            "scheduled_time",
        ),
    ),
    make_job=_job,
)

"""Workloads of Pollux (OSDI'21) and Sia (SOSP'23).

Their jobs are elastic and have no run time in the file. Ours is an estimate at the size asked for,
from the artifacts' profiles; read the results as those of rigid jobs.
"""

from __future__ import annotations

from sys import intern

from bursar.simulate.readers.draft import TraceDraft
from bursar.simulate.readers.pollux_runs import RUN_SECONDS
from bursar.simulate.readers.table import Columns, Fields, TableFormat
from bursar.simulate.readers.values import RowProblem, required, seconds, whole
from bursar.simulate.trace import TraceJob


def _job(fields: Fields, _line: int, draft: TraceDraft) -> TraceJob:
    name, submitted, application, replicas, batch = fields
    gpus = whole(replicas, "num_replicas", 1)
    return TraceJob(
        job_id=required(name, "name"),
        submitted_ms=seconds(submitted, "time"),
        run_ms=_run_ms(application, whole(batch, "batch_size", 1), gpus, draft),
        name=intern(application),
        gpus=gpus,
    )


def _run_ms(application: str, batch: int, gpus: int, draft: TraceDraft) -> int:
    """As profiled; else the GPU time of the nearest profile of the application, shared out anew."""
    profiled = RUN_SECONDS.get((application, batch, gpus))
    if profiled is not None:
        return profiled * 1_000
    near = [key for key in RUN_SECONDS if key[0] == application]
    if not near:
        known = sorted({key[0] for key in RUN_SECONDS})
        raise RowProblem(f"no profile of application {application!r}; known: {', '.join(known)}")
    draft.count("jobs of a size that was not profiled: GPU time of the nearest profile")
    nearest = min(near, key=lambda key: (abs(key[1] - batch), abs(key[2] - gpus), key))
    return round(RUN_SECONDS[nearest] * nearest[2] * 1_000 / gpus)


FORMAT = TableFormat(
    name="pollux",
    title="Pollux (OSDI'21) and Sia (SOSP'23) workloads",
    columns=Columns(required=("name", "time", "application", "num_replicas", "batch_size")),
    make_job=_job,
    remarks=("run times are estimates at the size asked for, from the artifacts' profiles",),
)

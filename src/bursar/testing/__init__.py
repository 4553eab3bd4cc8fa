"""Worlds in a line or two: what every test and benchmark of Bursar is built with."""

from bursar.testing.jobs import gang, group, job, mig_job, mps_job
from bursar.testing.stage import Stage
from bursar.testing.worlds import (
    Allowance,
    fleet_of,
    gpu_model,
    pool,
    queue,
    quota,
    state_of,
    submission,
    submit,
    tenant,
)

__all__ = [
    "Allowance",
    "Stage",
    "fleet_of",
    "gang",
    "gpu_model",
    "group",
    "job",
    "mig_job",
    "mps_job",
    "pool",
    "queue",
    "quota",
    "state_of",
    "submission",
    "submit",
    "tenant",
]

"""What tests and benchmarks share: small fleets, jobs, and a scheduler with a clock."""

from tests.support.fleets import (
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
from tests.support.jobs import gang, group, job, mig_job, mps_job
from tests.support.scheduler_harness import SchedulerHarness

__all__ = [
    "Allowance",
    "SchedulerHarness",
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

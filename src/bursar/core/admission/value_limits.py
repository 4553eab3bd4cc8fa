"""Limits of numbers and texts by field; a field that is not listed has the default limits."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.fleet import fleet, gpu
from bursar.model.jobs import job
from bursar.model.tenants import governance, policy, tenant

LARGEST = 2**53
"""Larger numbers lose digits in JSON readers that use floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLimits:
    """Lower and upper limit (inclusive) and the code of the error."""

    least: int = 0
    most: int = LARGEST
    code: str = "out-of-range"

    def __str__(self) -> str:
        if self.most == LARGEST:
            return f"a number of at least {self.least}"
        return f"a number from {self.least} to {self.most:,}"


PLAIN = ValueLimits()
POSITIVE = ValueLimits(least=1)
ANY_SIGN = ValueLimits(least=-LARGEST)

MOST_ARRAY = 10_000
MOST_GPUS_PER_NODE = 1_024

LIMITS: dict[tuple[type, str], ValueLimits] = {
    (job.TaskGroup, "count"): POSITIVE,
    (job.TaskGroup, "min_count"): POSITIVE,
    (job.WholeGpus, "count"): POSITIVE,
    (job.MpsShare, "percent"): ValueLimits(least=1, most=100),
    (job.Constraints, "anchors_percent"): ValueLimits(most=100),
    (job.SliceLayer, "size"): POSITIVE,
    (job.Spread, "max_tasks"): POSITIVE,
    (job.Slo, "gpu_ms"): POSITIVE,
    (job.Slo, "within_ms"): POSITIVE,
    (job.CheckpointPolicy, "interval_ms"): POSITIVE,
    (job.JobSpec, "expected_run_ms"): POSITIVE,
    (job.JobSpec, "max_run_ms"): POSITIVE,
    (job.JobSpec, "max_cost_micro_usd"): POSITIVE,
    (tenant.BudgetStep, "at_percent"): ValueLimits(least=1, most=1_000),
    (job.JobSpec, "array_size"): ValueLimits(least=1, most=MOST_ARRAY, code="array-size"),
    (fleet.Pool, "gpus_per_node"): ValueLimits(most=MOST_GPUS_PER_NODE),
    (fleet.Pool, "cpu_milli"): POSITIVE,
    (fleet.Pool, "memory_mib"): POSITIVE,
    (fleet.Pool, "mps_client_limit"): POSITIVE,
    (gpu.GpuModel, "memory_mib"): POSITIVE,
    (gpu.GpuModel, "relative_speed_milli"): POSITIVE,
    (gpu.MigGeometry, "compute_slices"): POSITIVE,
    (gpu.MigGeometry, "memory_slices"): POSITIVE,
    (gpu.MigProfile, "compute_slices"): POSITIVE,
    (gpu.MigProfile, "memory_slices"): POSITIVE,
    (gpu.MigProfile, "max_instances"): POSITIVE,
    (governance.RateCeiling, "micro_usd_per_hour"): POSITIVE,
    (governance.RightSize, "runs"): POSITIVE,
    (governance.RightSize, "times"): POSITIVE,
    (policy.Policies, "priority_classes"): ANY_SIGN,
    (policy.BorrowWhileReclaiming, "max_priority"): ANY_SIGN,
    (policy.OrderPolicy, "aging_step_ms"): POSITIVE,
    (policy.BackfillPolicy, "unknown_run_time_ms"): POSITIVE,
    (policy.SpotPolicy, "tick_ms"): ValueLimits(least=10_000),
    (policy.SpotPolicy, "half_life_ms"): POSITIVE,
}

MAY_BE_EMPTY: frozenset[tuple[type, str]] = frozenset(
    {
        (fleet.Taint, "value"),
        (fleet.Pool, "labels"),
        (fleet.Node, "labels"),
        (job.Toleration, "value"),
        (job.Constraints, "node_labels"),
    }
)
"""Fields whose text may be empty; everywhere else a text is a name."""

MOST_CHARACTERS = 253

UNITS: dict[tuple[type, str], str] = {
    (tenant.Quota, "nominal"): "0 or more milli-GPUs, milli-CPUs or MiB",
    (tenant.Quota, "borrowing_limit"): "0 or more, or leave it out for no limit",
    (tenant.BudgetStep, "at_percent"): "how many percent of the amount, from 1 to 1,000",
    (tenant.Quota, "lending_limit"): "0 or more, or leave it out for no limit",
    (job.WholeGpus, "count"): "how many GPUs each task needs, at least 1, or leave gpu out",
    (job.MpsShare, "percent"): "how much of one GPU each task needs, from 1 to 100 percent",
    (job.JobSpec, "max_cost_micro_usd"): (
        "what the job may cost at most, more than $0, or leave max_cost out for no limit"
    ),
    (job.JobSpec, "array_size"): (f"from 1 to {MOST_ARRAY:,}, and split a larger array"),
    (governance.RateCeiling, "micro_usd_per_hour"): (
        "what a job may cost an hour at most, more than $0"
    ),
    (fleet.Pool, "node_micro_usd_per_hour"): (
        "what an hour of a node costs in micro-dollars, 0 or more"
    ),
}
"""What to write instead, where "a number of at least 0" is not specific enough."""

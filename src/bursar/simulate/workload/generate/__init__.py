"""Workloads drawn from a seed by published distributions, so that a run needs no download."""

from bursar.simulate.workload.generate.draw import stream, synthetic, synthetic_jobs
from bursar.simulate.workload.generate.presets import PRESETS, preset
from bursar.simulate.workload.generate.workload import (
    Deadlines,
    JobClass,
    LogNormal,
    OutcomeMix,
    Rhythm,
    SyntheticWorkload,
    Teams,
    UserEstimates,
)

__all__ = [
    "PRESETS",
    "Deadlines",
    "JobClass",
    "LogNormal",
    "OutcomeMix",
    "Rhythm",
    "SyntheticWorkload",
    "Teams",
    "UserEstimates",
    "preset",
    "stream",
    "synthetic",
    "synthetic_jobs",
]

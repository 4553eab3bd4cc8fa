"""Workloads generated from a seed and published distributions; no download is needed."""

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

"""Workloads drawn from a seed by published distributions, so that a run needs no download."""

from bursar.simulate.generate.draw import stream, synthetic, synthetic_jobs
from bursar.simulate.generate.presets import PRESETS, preset
from bursar.simulate.generate.workload import (
    Deadlines,
    Estimates,
    JobClass,
    LogNormal,
    Outcomes,
    Rhythm,
    SyntheticWorkload,
    Teams,
)

__all__ = [
    "PRESETS",
    "Deadlines",
    "Estimates",
    "JobClass",
    "LogNormal",
    "Outcomes",
    "Rhythm",
    "SyntheticWorkload",
    "Teams",
    "preset",
    "stream",
    "synthetic",
    "synthetic_jobs",
]

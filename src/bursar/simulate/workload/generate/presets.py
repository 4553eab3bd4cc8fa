"""Presets fitted to the averages of published traces.

Where a figure comes from:

- *summary*: the table of averages published with the Acme traces (``cluster_summary.csv`` of
  InternLM/AcmeTrace, CC-BY-4.0), which has Philly, Helios, PAI and Acme's own Seren and Kalos side by
  side. Mean and median run time, mean GPUs and GPU time per GPU job, the longest job and the rates of
  failure and cancellation are from there, and every preset meets the first four within 5 %.
- *Philly list*: counted in the 82,247 jobs of the Pollux and Sia artifacts.
- *assumed*: no published number at hand; chosen to be plausible, and easy to replace.

Sizes between 1 and the largest and the components of the durations are fitted, not published.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bursar.core.admission.problem import suggest
from bursar.model.errors import UserError
from bursar.model.units import SECOND_MS
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

Component = tuple[int, float, float]
"""Median in seconds, sigma, weight."""

OFFICE_HOURS = Rhythm(
    hours=(
        *(0.7, 0.55, 0.45, 0.4, 0.4, 0.45, 0.55, 0.7),
        *(0.95, 1.3, 1.5, 1.45, 1.05, 1.2, 1.5, 1.55),
        *(1.5, 1.4, 1.1, 1.15, 1.25, 1.2, 1.05, 0.85),
    ),
    weekdays=(1.1, 1.15, 1.15, 1.15, 1.1, 0.7, 0.65),
)
"""Assumed: two peaks with a dip at noon and one at dinner, half of that at night, less at weekends."""


def _mixture(*components: Component) -> tuple[LogNormal, ...]:
    return tuple(
        LogNormal(median_ms=median * SECOND_MS, sigma=sigma, weight=weight)
        for median, sigma, weight in components
    )


def _sizes(
    weights: Iterable[tuple[int, float]], *tiers: tuple[int, tuple[LogNormal, ...]]
) -> tuple[JobClass, ...]:
    """Classes of whole GPUs; a tier is the largest size that has its durations."""
    return tuple(
        JobClass(
            weight=weight, gpus=gpus, run=next(run for largest, run in tiers if gpus <= largest)
        )
        for gpus, weight in weights
    )


def philly_like() -> SyntheticWorkload:
    """Microsoft's Philly in 2017: most jobs have one GPU, multi-GPU jobs run far longer.

    Summary: 112,956 GPU jobs, mean 18,006 s, median 874 s, 1.928 GPUs, 61,041 GPU-seconds; at most 128
    GPUs and 4,240,676 s; 30.5 % failed, 9 % cancelled. Philly list: 109 days (so 1,036 jobs a day), 15
    virtual clusters of which the first has 50 %, the next 20, 12 and 9 %, and the hours and weekdays.
    """
    one = _mixture((75, 0.6, 0.40), (1750, 1.0, 0.495), (35000, 1.5, 0.105))
    many = _mixture((150, 0.8, 0.40), (6800, 1.2, 0.24), (53000, 1.25, 0.36))
    sizes = (
        *((1, 0.8338), (2, 0.0428), (4, 0.0392), (8, 0.0684)),
        *((16, 0.0136), (32, 0.0017), (64, 0.0002), (128, 0.0001)),
    )
    return SyntheticWorkload(
        source="philly-like",
        jobs=7 * 1036,
        jobs_per_day=1036,
        classes=_sizes(sizes, (1, one), (128, many)),
        rhythm=Rhythm(
            hours=(
                *(1.27, 0.98, 1.12, 1.10, 0.70, 1.15, 1.67, 2.09),
                *(1.11, 1.01, 1.02, 0.87, 0.75, 0.70, 0.64, 0.65),
                *(0.88, 0.67, 0.80, 0.73, 1.02, 0.92, 1.13, 1.01),
            ),
            weekdays=(0.86, 1.07, 1.14, 1.29, 1.44, 0.61, 0.59),
        ),
        teams=Teams(count=15, skew=1.5),
        outcomes=OutcomeMix(failed=0.305, cancelled=0.09),
        longest_ms=4_240_676 * SECOND_MS,
    )


def helios_like() -> SyntheticWorkload:
    """SenseTime's Helios in 2020: half of the jobs end within minutes, a few take months.

    Summary: 1,580,464 GPU jobs in half a year on 6,220 GPUs (so 8,636 a day), mean 6,652 s, median
    206 s, 3.716 GPUs, 49,351 GPU-seconds; at most 4,320,009 s; 15.5 % failed, 22.1 % cancelled.
    Assumed: the teams and the hours. Jobs above 512 GPUs (there were some, up to 2,048) are left out.
    """
    one = _mixture((76, 1.0, 0.58), (700, 1.2, 0.339), (10000, 1.2, 0.081))
    many = _mixture((86, 1.0, 0.50), (1930, 1.3, 0.28), (32000, 1.2, 0.22))
    sizes = (
        *((1, 0.6718), (2, 0.0743), (4, 0.0707), (8, 0.15), (16, 0.0192)),
        *((32, 0.0065), (64, 0.0041), (128, 0.0024), (256, 0.0006), (512, 0.0004)),
    )
    return SyntheticWorkload(
        source="helios-like",
        jobs=7 * 8636,
        jobs_per_day=8636,
        classes=_sizes(sizes, (1, one), (512, many)),
        rhythm=OFFICE_HOURS,
        teams=Teams(count=26, skew=0.9),
        outcomes=OutcomeMix(failed=0.155, cancelled=0.221),
        longest_ms=4_320_009 * SECOND_MS,
    )


def llm_pretraining() -> SyntheticWorkload:
    """Acme's Kalos in 2023: most jobs are evaluations, most GPU time is a few pretraining runs.

    Summary: 19,907 GPU jobs, mean 1,260 s, median 124 s, 26.77 GPUs, 267,900 GPU-seconds; at most 1,024
    GPUs and 625,740 s; 39.7 % failed, 6.2 % cancelled. Assumed: the rate, the teams and the hours.
    """
    small = _mixture((67, 1.0, 0.715), (300, 1.1, 0.271), (3300, 1.1, 0.014))
    medium = _mixture((103, 1.1, 0.626), (540, 1.2, 0.336), (6800, 1.2, 0.038))
    large = _mixture((183, 1.2, 0.397), (2640, 1.3, 0.299), (19300, 1.1, 0.304))
    sizes = (
        *((1, 0.5658), (2, 0.0447), (4, 0.0355), (8, 0.19), (16, 0.0329), (32, 0.0395)),
        *((64, 0.032), (128, 0.0216), (256, 0.0186), (512, 0.0133), (1024, 0.0061)),
    )
    return SyntheticWorkload(
        source="llm-pretraining",
        jobs=7 * 190,
        jobs_per_day=190,
        classes=_sizes(sizes, (4, small), (64, medium), (1024, large)),
        rhythm=OFFICE_HOURS,
        teams=Teams(count=4, skew=1.0),
        outcomes=OutcomeMix(failed=0.397, cancelled=0.062),
        longest_ms=625_740 * SECOND_MS,
    )


def inference_mix() -> SyntheticWorkload:
    """Fractions of GPUs: batch jobs like Alibaba's PAI in 2020, and services that run for days.

    Summary, for the batch jobs: 1,037,085 jobs, mean 4,787 s, median 481 s, 0.683 GPUs (median 0.5), at
    most 626,371 s. Assumed: one job in forty is a service of high priority on a seventh, two sevenths,
    half or all of a GPU (the sizes of MIG slices) that runs for about two days; one batch job in ten
    has a deadline; the rate, the teams and the hours.
    """
    batch = _mixture((220, 1.1, 0.602), (1760, 1.2, 0.297), (20800, 1.0, 0.101))
    service = _mixture((172800, 0.9, 1.0))
    parts = (
        *((0, 250, 0.2338), (0, 500, 0.4105), (1, 0, 0.3255)),
        *((2, 0, 0.0209), (4, 0, 0.0058), (8, 0, 0.0036)),
    )
    classes = [
        JobClass(weight=weight, gpus=gpus, gpu_milli=milli, run=batch, name="batch")
        for gpus, milli, weight in parts
    ]
    for gpus, milli, weight in ((0, 143, 0.4), (0, 286, 0.3), (0, 500, 0.2), (1, 0, 0.1)):
        classes.append(
            JobClass(
                weight=weight / 40,
                gpus=gpus,
                gpu_milli=milli,
                run=service,
                priority=100,
                name="serve",
            )
        )
    return SyntheticWorkload(
        source="inference-mix",
        jobs=7 * 2000,
        jobs_per_day=2000,
        classes=tuple(classes),
        rhythm=OFFICE_HOURS,
        teams=Teams(count=10, skew=1.1),
        estimates=UserEstimates(given=0.7),
        deadlines=Deadlines(given=0.1),
        longest_ms=30 * 86_400 * SECOND_MS,
    )


PRESETS = {
    "philly-like": philly_like,
    "helios-like": helios_like,
    "inference-mix": inference_mix,
    "llm-pretraining": llm_pretraining,
}


def preset(
    name: str, *, jobs: int | None = None, jobs_per_day: float | None = None
) -> SyntheticWorkload:
    """A workload by name: a week of it, or a number of jobs at a rate."""
    if name not in PRESETS:
        raise UserError(
            f"{name!r} is not a synthetic workload.",
            fix=suggest(name, PRESETS, "workload"),
            code="unknown-workload",
        )
    workload = PRESETS[name]()
    if jobs is not None:
        workload = replace(workload, jobs=jobs)
    return workload if jobs_per_day is None else replace(workload, jobs_per_day=jobs_per_day)

"""The parameters of a synthetic workload: arrivals, sizes, durations, teams and users.

Durations are mixtures of log-normals, because every published trace has short trials, ordinary runs and
a few that take most of the GPU time. Their moments are known exactly, so a workload can be fitted to
published averages and scaled to a load without drawing a job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import exp, log
from statistics import NormalDist

from bursar.model.units import DAY_MS, HOUR_MS, MILLI, MINUTE_MS

NORMAL = NormalDist()
EVEN_HOURS = (1.0,) * 24
EVEN_WEEK = (1.0,) * 7


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """Durations with this median; ``sigma`` is the standard deviation of their logarithm."""

    median_ms: int
    sigma: float
    weight: float = 1.0

    def mean_ms(self, longest_ms: int) -> float:
        """The mean when durations are limited to ``longest_ms``."""
        mu, sigma = log(self.median_ms), self.sigma
        if not sigma:
            return float(min(self.median_ms, longest_ms))
        reach = (log(longest_ms) - mu) / sigma
        below = exp(mu + sigma * sigma / 2) * NORMAL.cdf(reach - sigma)
        return below + longest_ms * (1 - NORMAL.cdf(reach))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs of one size. ``gpu_milli`` is a fraction of a GPU, as in a trace."""

    weight: float
    run: tuple[LogNormal, ...]
    gpus: int = 0
    gpu_milli: int = 0
    tasks: int = 1
    cpu_milli: int = 0
    memory_mib: int = 0
    priority: int = 0
    name: str = "train"

    @property
    def gpu_total_milli(self) -> int:
        return self.tasks * (self.gpus * MILLI + self.gpu_milli)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """Relative arrival rates by hour of the day and day of the week, Monday first."""

    hours: tuple[float, ...] = EVEN_HOURS
    weekdays: tuple[float, ...] = EVEN_WEEK

    def factors(self) -> list[float]:
        """The rate in each hour of a week relative to the average hour."""
        product = [day * hour for day in self.weekdays for hour in self.hours]
        mean = sum(product) / len(product)
        return [one / mean for one in product]


@dataclass(frozen=True, slots=True, kw_only=True)
class Teams:
    """The teams: the share of the k-th is proportional to ``1 / k ** skew`` (Zipf)."""

    count: int = 8
    skew: float = 1.0
    users_each: int = 6

    def shares(self) -> list[float]:
        """Each team's share of the jobs, largest first."""
        weights = [1 / rank**self.skew for rank in range(1, self.count + 1)]
        return [weight / sum(weights) for weight in weights]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEstimates:
    """Users' run time estimates: too high, and rounded up to a common duration.

    A user multiplies the run time by a uniform factor from 1 to ``max_factor``. ``given`` is the fraction
    of jobs with an estimate.
    """

    given: float = 1.0
    max_factor: float = 5.0
    common_ms: tuple[int, ...] = (
        *(minutes * MINUTE_MS for minutes in (5, 10, 15, 30)),
        *(hours * HOUR_MS for hours in (1, 2, 3, 4, 6, 8, 12, 18, 24, 36)),
        *(days * DAY_MS for days in (2, 3, 5, 7, 10, 14, 21, 30, 60)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """A fraction of jobs has a deadline after a uniform multiple of their run time."""

    given: float = 0.0
    tightest: float = 1.5
    loosest: float = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMix:
    """Fractions of outcomes; the rest succeeded. For reports only: a replay ignores them."""

    failed: float = 0.0
    cancelled: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticWorkload:
    """A workload to draw from. ``templates`` is the number of scripts of each class.

    A job is a run of a template: it has the template's user and name and a similar run time, so that run
    times can be learned. ``similarity`` is the fraction of the variance that the template explains.
    """

    source: str
    jobs: int
    jobs_per_day: float
    classes: tuple[JobClass, ...]
    rhythm: Rhythm = field(default_factory=Rhythm)
    teams: Teams = field(default_factory=Teams)
    estimates: UserEstimates = field(default_factory=UserEstimates)
    deadlines: Deadlines = field(default_factory=Deadlines)
    outcomes: OutcomeMix = field(default_factory=OutcomeMix)
    longest_ms: int = 50 * DAY_MS
    templates: int = 256
    similarity: float = 0.5

    def mean_gpu_ms(self) -> float:
        """The mean GPU time of a job."""
        return sum(
            share * job.gpu_total_milli / MILLI * run.mean_ms(self.longest_ms)
            for share, job, run in self.components()
        )

    def components(self) -> Iterator[tuple[float, JobClass, LogNormal]]:
        """Each class and component of its durations, with its share of all jobs."""
        total = sum(job.weight for job in self.classes)
        for job in self.classes:
            within = sum(run.weight for run in job.run)
            for run in job.run:
                yield job.weight / total * run.weight / within, job, run

    def at_load(self, gpus: int, load: float) -> SyntheticWorkload:
        """The same jobs at the rate that keeps a fraction ``load`` of the GPUs busy."""
        return replace(self, jobs_per_day=load * gpus * DAY_MS / self.mean_gpu_ms())

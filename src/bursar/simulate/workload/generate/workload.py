"""What a synthetic workload is made of: how jobs arrive, how large and how long they are, whose they are.

Durations are mixtures of log-normals, because every published trace has short tries, ordinary runs and
a few that take most of the GPU time. Their moments are known exactly, so a workload can be fitted to
published averages and scaled to a load without drawing a single job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        """The mean when nothing takes longer than ``longest_ms``."""
        mu, sigma = log(self.median_ms), self.sigma
        if not sigma:
            return float(min(self.median_ms, longest_ms))
        reach = (log(longest_ms) - mu) / sigma
        below = exp(mu + sigma * sigma / 2) * NORMAL.cdf(reach - sigma)
        return below + longest_ms * (1 - NORMAL.cdf(reach))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs of one size. ``gpu_milli`` is for a part of a GPU, as in a trace."""

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
        """All the GPU that such a job holds."""
        return self.tasks * (self.gpus * MILLI + self.gpu_milli)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How the rate of arrivals follows the hours of the day and the days of the week, Monday first.

    Only proportions matter: over a week the rate is what the workload says.
    """

    hours: tuple[float, ...] = EVEN_HOURS
    weekdays: tuple[float, ...] = EVEN_WEEK

    def factors(self) -> list[float]:
        """The rate in each hour of a week against the average hour."""
        product = [day * hour for day in self.weekdays for hour in self.hours]
        mean = sum(product) / len(product)
        return [one / mean for one in product]


@dataclass(frozen=True, slots=True, kw_only=True)
class Teams:
    """Who submits: the k-th team has a part proportional to ``1 / k ** skew`` (Zipf)."""

    count: int = 8
    skew: float = 1.0
    users_each: int = 6

    def parts(self) -> list[float]:
        """Each team's part of the jobs, largest first."""
        weights = [1 / rank**self.skew for rank in range(1, self.count + 1)]
        return [weight / sum(weights) for weight in weights]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEstimates:
    """What users write beforehand: too much, and rounded up to a time that people say.

    A user's habit is to multiply by something even from 1 to ``most_over``; a part writes nothing.
    """

    given: float = 1.0
    most_over: float = 5.0
    said_ms: tuple[int, ...] = (
        *(minutes * MINUTE_MS for minutes in (5, 10, 15, 30)),
        *(hours * HOUR_MS for hours in (1, 2, 3, 4, 6, 8, 12, 18, 24, 36)),
        *(days * DAY_MS for days in (2, 3, 5, 7, 10, 14, 21, 30, 60)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Some jobs must be done by a time: their run time, multiplied evenly between two numbers."""

    given: float = 0.0
    tightest: float = 1.5
    loosest: float = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMix:
    """How jobs ended; the rest succeeded. For reports only: a replay plays what really ran."""

    failed: float = 0.0
    cancelled: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticWorkload:
    """A workload to draw from. ``templates`` is how many different scripts there are of each class.

    A job is a run of a template: it has the template's user and name and runs about as long, which is
    what makes run times learnable. ``likeness`` is the part of the variance that the template explains.
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
    likeness: float = 0.5

    def mean_run_ms(self) -> float:
        """What jobs run for on average."""
        return self._mean(lambda _job, run: run.mean_ms(self.longest_ms))

    def mean_gpus(self) -> float:
        """What jobs hold on average."""
        return self._mean(lambda job, _run: job.gpu_total_milli / MILLI)

    def mean_gpu_ms(self) -> float:
        """GPU time of a job on average."""
        return self._mean(
            lambda job, run: job.gpu_total_milli / MILLI * run.mean_ms(self.longest_ms)
        )

    def median_run_ms(self) -> float:
        """Half of the jobs run for less."""
        low, high = 0.0, log(self.longest_ms)
        for _ in range(60):
            middle = (low + high) / 2
            below = sum(part * _below(run, middle) for part, _, run in self.parts())
            low, high = (middle, high) if below < 0.5 else (low, middle)
        return exp(low)

    def parts(self) -> Iterator[tuple[float, JobClass, LogNormal]]:
        """Each class and component of its durations, with its part of all jobs."""
        total = sum(job.weight for job in self.classes)
        for job in self.classes:
            within = sum(run.weight for run in job.run)
            for run in job.run:
                yield job.weight / total * run.weight / within, job, run

    def at_load(self, gpus: int, load: float) -> SyntheticWorkload:
        """The same jobs arriving so fast that they would keep this part of so many GPUs busy."""
        return replace(self, jobs_per_day=load * gpus * DAY_MS / self.mean_gpu_ms())

    def _mean(self, amount: Callable[[JobClass, LogNormal], float]) -> float:
        return sum(part * amount(job, run) for part, job, run in self.parts())


def _below(run: LogNormal, log_ms: float) -> float:
    if not run.sigma:
        return float(log(run.median_ms) < log_ms)
    return NORMAL.cdf((log_ms - log(run.median_ms)) / run.sigma)

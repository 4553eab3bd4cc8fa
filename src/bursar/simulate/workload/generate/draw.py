"""Draws the jobs of a synthetic workload one by one; equal seeds give equal jobs.

Costly values are computed once for each template; a job then takes a few random numbers. Normal deviates
come from a table of quantiles, which is several times faster than drawing them; its 16,384 entries reach
four standard deviations.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from math import exp, log, sqrt
from random import Random

from bursar.model.errors import UserError
from bursar.model.units import HOUR_MS
from bursar.simulate.workload.generate.workload import (
    NORMAL,
    JobClass,
    LogNormal,
    SyntheticWorkload,
)
from bursar.simulate.workload.trace import Trace, TraceJob
from bursar.simulate.workload.trace_scenario import JobStream

QUANTILES = 16_384


class _Template:
    """A script that a user runs repeatedly."""

    __slots__ = ("job", "log_ms", "name", "over", "spread", "team", "user")

    def __init__(self, job: JobClass, name: str, owner: tuple[str, str], over: float) -> None:
        self.job = job
        self.name = name
        self.team, self.user = owner
        self.over = over
        self.log_ms = 0.0
        self.spread = 0.0

    def runs_about(self, run: LogNormal, deviate: float, similarity: float) -> _Template:
        """Sets the position of the template in its class, and the spread of its runs."""
        self.log_ms = log(run.median_ms) + run.sigma * sqrt(similarity) * deviate
        self.spread = run.sigma * sqrt(1 - similarity)
        return self


def synthetic(workload: SyntheticWorkload, seed: int) -> Trace:
    """The whole workload as a trace."""
    return Trace(source=workload.source, jobs=tuple(synthetic_jobs(workload, seed)))


def stream(workload: SyntheticWorkload, seed: int) -> JobStream:
    """The workload as a stream, which is not held in memory."""
    return JobStream(
        source=workload.source,
        teams=tuple(_team_name(number) for number in range(workload.teams.count)),
        draw=lambda: synthetic_jobs(workload, seed),
    )


def synthetic_jobs(workload: SyntheticWorkload, seed: int) -> Iterator[TraceJob]:
    """The jobs in order of submission."""
    validate(workload)
    return _jobs(workload, Random(seed))


def validate(workload: SyntheticWorkload) -> None:
    """Rejects numbers from which nothing can be drawn."""
    rates = (*workload.rhythm.hours, *workload.rhythm.weekdays)
    weights = [share for share, _, _ in workload.components()] if workload.classes else []
    invalid = {
        "jobs": workload.jobs < 0,
        "jobs_per_day": workload.jobs_per_day <= 0,
        "classes": not weights or min(weights) < 0,
        "rhythm": min(rates) < 0 or not any(workload.rhythm.hours) or len(rates) != 24 + 7,
        "teams": workload.teams.count < 1 or workload.teams.users_each < 1,
        "templates": workload.templates < 1,
        "similarity": not 0 <= workload.similarity <= 1,
    }
    for name, is_invalid in invalid.items():
        if is_invalid:
            raise UserError(
                f"The workload {workload.source!r} has invalid {name}.",
                fix="Amounts and rates must be positive, fractions between 0 and 1.",
                code="bad-workload",
            )


def _jobs(workload: SyntheticWorkload, rng: Random) -> Iterator[TraceJob]:
    templates, chances = _templates(workload, rng)
    deviates = [NORMAL.inv_cdf((rank + 0.5) / QUANTILES) for rank in range(QUANTILES)]
    common_ms, longest_ms = workload.estimates.common_ms, workload.longest_ms
    longest_common_ms = max(common_ms, default=0)
    estimated, due = workload.estimates.given, workload.deadlines
    slack = due.loosest - due.tightest
    failed = workload.outcomes.failed
    not_succeeded = failed + workload.outcomes.cancelled
    random, each = rng.random, workload.templates
    for number, at_ms in enumerate(_arrivals(workload, rng)):
        group = bisect_right(chances, random()) * each
        template = templates[group + int(random() * each)]
        deviate = deviates[int(random() * QUANTILES)]
        run_ms = min(longest_ms, int(exp(template.log_ms + template.spread * deviate)) + 1)
        expected_ms = None
        if random() < estimated:
            estimate_ms = int(run_ms * template.over)
            rounded = estimate_ms < longest_common_ms
            expected_ms = common_ms[bisect_left(common_ms, estimate_ms)] if rounded else estimate_ms
        deadline_ms = None
        if due.given and random() < due.given:
            deadline_ms = at_ms + int(run_ms * (due.tightest + slack * random()))
        outcome_draw, job = random(), template.job
        yield TraceJob(
            job_id=f"{number:07}",
            submitted_ms=at_ms,
            run_ms=run_ms,
            team=template.team,
            user=template.user,
            name=template.name,
            tasks=job.tasks,
            gpus=job.gpus,
            gpu_milli=job.gpu_milli,
            cpu_milli=job.cpu_milli,
            memory_mib=job.memory_mib,
            expected_ms=expected_ms,
            deadline_ms=deadline_ms,
            priority=job.priority,
            outcome=(
                "succeeded"
                if outcome_draw >= not_succeeded
                else "failed"
                if outcome_draw < failed
                else "cancelled"
            ),
        )


def _arrivals(workload: SyntheticWorkload, rng: Random) -> Iterator[int]:
    """A Poisson process whose rate changes each hour."""
    hourly = [factor * workload.jobs_per_day / 24 for factor in workload.rhythm.factors()]
    random, hour, remaining, elapsed = rng.random, 0, hourly[0], 0.0
    for _ in range(workload.jobs):
        wait = -log(1.0 - random())
        while wait > remaining:
            wait -= remaining
            hour += 1
            remaining, elapsed = hourly[hour % len(hourly)], 0.0
        remaining -= wait
        elapsed += wait / hourly[hour % len(hourly)]
        yield hour * HOUR_MS + int(elapsed * HOUR_MS)


def _templates(workload: SyntheticWorkload, rng: Random) -> tuple[list[_Template], list[float]]:
    """The templates of each class and component, and the cumulative shares of the components.

    Owners and positions in the distribution are spread evenly over the templates of a component, not
    drawn: a heavy tail drawn a few hundred times would have another mean with every seed.
    """
    templates: list[_Template] = []
    ends: list[float] = []
    each = workload.templates
    edges = list(accumulate(workload.teams.shares()))[:-1]
    for share, job, run in workload.components():
        ends.append(share)
        ranks = list(range(each))
        rng.shuffle(ranks)
        for number, rank in enumerate(ranks):
            team = bisect_right(edges, (number + 0.5) / each)
            user = rng.randrange(workload.teams.users_each)
            owner = (_team_name(team), f"{_team_name(team)}-user-{user + 1}")
            over = 1 + (workload.estimates.max_factor - 1) * rng.random()
            name = f"{job.name}-{len(templates) // each}-{number}"
            deviate = NORMAL.inv_cdf((rank + 0.5) / each)
            template = _Template(job, name, owner, over)
            templates.append(template.runs_about(run, deviate, workload.similarity))
    return templates, list(accumulate(ends))[:-1]


def _team_name(number: int) -> str:
    return f"team-{number + 1:02}"

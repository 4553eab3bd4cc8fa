"""Draws the jobs of a synthetic workload, one by one: the same seed gives the same jobs.

A million jobs take seconds and no memory. What is costly or textual is made once for each template;
a job then takes a handful of random numbers. Normal deviates come from a table of quantiles, which is
several times faster than drawing them and at 16,384 entries reaches four standard deviations.
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
    """A script that some user runs again and again."""

    __slots__ = ("job", "log_ms", "name", "over", "spread", "team", "user")

    def __init__(self, job: JobClass, name: str, owner: tuple[str, str], over: float) -> None:
        self.job = job
        self.name = name
        self.team, self.user = owner
        self.over = over
        self.log_ms = 0.0
        self.spread = 0.0

    def runs_about(self, run: LogNormal, deviate: float, likeness: float) -> _Template:
        """Its own place in the distribution of its class, and how far its runs spread around it."""
        self.log_ms = log(run.median_ms) + run.sigma * sqrt(likeness) * deviate
        self.spread = run.sigma * sqrt(1 - likeness)
        return self


def synthetic(workload: SyntheticWorkload, seed: int) -> Trace:
    """The whole workload as a trace."""
    return Trace(source=workload.source, jobs=tuple(synthetic_jobs(workload, seed)))


def stream(workload: SyntheticWorkload, seed: int) -> JobStream:
    """The workload as jobs to come, for a run that should not hold it."""
    return JobStream(
        source=workload.source,
        teams=tuple(_team_name(number) for number in range(workload.teams.count)),
        draw=lambda: synthetic_jobs(workload, seed),
    )


def synthetic_jobs(workload: SyntheticWorkload, seed: int) -> Iterator[TraceJob]:
    """The jobs in order of submission."""
    refuse_nonsense(workload)
    return _jobs(workload, Random(seed))


def refuse_nonsense(workload: SyntheticWorkload) -> None:
    """Numbers from which nothing can be drawn."""
    rates = (*workload.rhythm.hours, *workload.rhythm.weekdays)
    weights = [part for part, _, _ in workload.parts()] if workload.classes else []
    wrong = {
        "jobs": workload.jobs < 0,
        "jobs_per_day": workload.jobs_per_day <= 0,
        "classes": not weights or min(weights) < 0,
        "rhythm": min(rates) < 0 or not any(workload.rhythm.hours) or len(rates) != 24 + 7,
        "teams": workload.teams.count < 1 or workload.teams.users_each < 1,
        "templates": workload.templates < 1,
        "likeness": not 0 <= workload.likeness <= 1,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise UserError(
                f"{name} of the workload {workload.source!r} make no sense.",
                fix="Amounts and rates must be positive, parts must lie between 0 and 1.",
                code="bad-workload",
            )


def _jobs(workload: SyntheticWorkload, chance: Random) -> Iterator[TraceJob]:
    templates, chances = _templates(workload, chance)
    deviates = [NORMAL.inv_cdf((rank + 0.5) / QUANTILES) for rank in range(QUANTILES)]
    said_ms, longest_ms = workload.estimates.said_ms, workload.longest_ms
    longest_said_ms = max(said_ms, default=0)
    estimated, due = workload.estimates.given, workload.deadlines
    slack = due.loosest - due.tightest
    failed = workload.outcomes.failed
    ended_badly = failed + workload.outcomes.cancelled
    random, each = chance.random, workload.templates
    for number, at_ms in enumerate(_arrivals(workload, chance)):
        group = bisect_right(chances, random()) * each
        template = templates[group + int(random() * each)]
        deviate = deviates[int(random() * QUANTILES)]
        run_ms = min(longest_ms, int(exp(template.log_ms + template.spread * deviate)) + 1)
        expected_ms = None
        if random() < estimated:
            wish_ms = int(run_ms * template.over)
            rounded = wish_ms < longest_said_ms
            expected_ms = said_ms[bisect_left(said_ms, wish_ms)] if rounded else wish_ms
        deadline_ms = None
        if due.given and random() < due.given:
            deadline_ms = at_ms + int(run_ms * (due.tightest + slack * random()))
        luck, job = random(), template.job
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
                "succeeded" if luck >= ended_badly else "failed" if luck < failed else "cancelled"
            ),
        )


def _arrivals(workload: SyntheticWorkload, chance: Random) -> Iterator[int]:
    """A Poisson process whose rate changes each hour: unit waits are stretched by the rate."""
    hourly = [factor * workload.jobs_per_day / 24 for factor in workload.rhythm.factors()]
    random, hour, left, into = chance.random, 0, hourly[0], 0.0
    for _ in range(workload.jobs):
        wait = -log(1.0 - random())
        while wait > left:
            wait -= left
            hour += 1
            left, into = hourly[hour % len(hourly)], 0.0
        left -= wait
        into += wait / hourly[hour % len(hourly)]
        yield hour * HOUR_MS + int(into * HOUR_MS)


def _templates(workload: SyntheticWorkload, chance: Random) -> tuple[list[_Template], list[float]]:
    """The templates of each class and component in turn, and where each ends on a scale to 1.

    Owners and places in the distribution are spread evenly over the templates of a component, not
    drawn: a heavy tail drawn a few hundred times would have another mean with every seed.
    """
    found: list[_Template] = []
    ends: list[float] = []
    each = workload.templates
    edges = list(accumulate(workload.teams.parts()))[:-1]
    for part, job, run in workload.parts():
        ends.append(part)
        ranks = list(range(each))
        chance.shuffle(ranks)
        for number, rank in enumerate(ranks):
            team = bisect_right(edges, (number + 0.5) / each)
            user = chance.randrange(workload.teams.users_each)
            owner = (_team_name(team), f"{_team_name(team)}-user-{user + 1}")
            over = 1 + (workload.estimates.most_over - 1) * chance.random()
            name = f"{job.name}-{len(found) // each}-{number}"
            deviate = NORMAL.inv_cdf((rank + 0.5) / each)
            template = _Template(job, name, owner, over)
            found.append(template.runs_about(run, deviate, workload.likeness))
    return found, list(accumulate(ends))[:-1]


def _team_name(number: int) -> str:
    return f"team-{number + 1:02}"

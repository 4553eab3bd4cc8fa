"""Deadlines on spot with the full scheduler, on every fourth start of the two-month traces.

All starts take four minutes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.figure import Figure, Stopwatch
from benchmarks.spot import TRACES
from bursar.model.errors import UserError
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.tenants.policy import DeadlineRule, Policies, SpotPolicy
from bursar.model.units import HOUR_MS, MINUTE_MS
from bursar.simulate.scenario import Delays
from studies.spot_deadlines.sources import TWO_MONTHS, SpotCase, read_cases, spot_folder
from tests.simulate.spot_job_runs import Timed, run

JOB_HOURS = 48
WITHIN_MS = 60 * HOUR_MS
RESTART_MS = 12 * MINUTE_MS
START_STEP = 4
NO_DELAYS = Delays(start_ms=0, stop_ms=0)


@dataclass(slots=True)
class Tally:
    """Cost and missed deadlines under one rule."""

    usd: float = 0.0
    jobs: int = 0
    missed: int = 0

    @property
    def mean_usd(self) -> float:
        return self.usd / self.jobs


def figures() -> list[Figure]:
    """Mean cost of a 48-hour job and missed deadlines, for each rule."""
    try:
        cases = read_cases(spot_folder(TRACES), WITHIN_MS)
    except UserError as error:
        return [
            Figure(
                scenario="spot with the full scheduler",
                what="not run",
                measured="-",
                reference=error.problem,
            )
        ]
    watch = Stopwatch()
    tallies = {rule: Tally() for rule in DeadlineRule}
    with watch.lap():
        for case in cases:
            if case.group == TWO_MONTHS:
                _run_case(case, tallies)
    uniform_progress_usd = tallies[DeadlineRule.UNIFORM_PROGRESS].mean_usd
    name = f"two months, {tallies[DeadlineRule.ON_DEMAND].jobs} jobs, full scheduler"
    rows = [
        Figure(
            scenario=name,
            what=f"{rule.value}, mean $; missed deadlines",
            measured=f"{one.mean_usd:.2f}; {one.missed}",
            reference=f"target below {uniform_progress_usd:.2f}; 0"
            if rule is DeadlineRule.EXPECTED_COST
            else "target 0 missed",
        )
        for rule, one in tallies.items()
    ]
    cpu_time = Figure(
        scenario=name,
        what="CPU time",
        measured=f"{watch.total:.0f} s",
        reference="target under 120 s",
    )
    return [*rows, cpu_time]


def _run_case(case: SpotCase, tallies: dict[DeadlineRule, Tally]) -> None:
    intervals = [
        (tick * case.tick_ms, bool(machines)) for tick, machines in enumerate(case.available)
    ]
    for start in case.starts[::START_STEP]:
        timed = Timed(
            submitted_ms=start * case.tick_ms,
            hours=JOB_HOURS,
            within_ms=WITHIN_MS,
            checkpoint=CheckpointPolicy(interval_ms=case.tick_ms, restart_ms=RESTART_MS),
        )
        for rule, tally in tallies.items():
            spot = SpotPolicy(deadline_rule=rule, tick_ms=case.tick_ms, change_over_ms=0)
            policies = replace(Policies(), spot=spot)
            outcome = run({"zone": intervals}, timed, policies, NO_DELAYS, check=False)
            tally.usd += outcome.usd
            tally.jobs += 1
            tally.missed += (
                outcome.done_ms is None or outcome.done_ms > start * case.tick_ms + WITHIN_MS
            )

"""Deadlines on spot through the whole loop: a quarter of the two-month set; all of it takes four minutes."""

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
from tests.simulate.spot_days import Timed, run

JOB_HOURS = 48
WITHIN_MS = 60 * HOUR_MS
RESTART_MS = 12 * MINUTE_MS
EVERY_WHICH_START = 4
AT_ONCE = Delays(start_ms=0, stop_ms=0)


@dataclass(slots=True)
class Paid:
    """What one rule came to."""

    usd: float = 0.0
    jobs: int = 0
    missed: int = 0

    @property
    def mean_usd(self) -> float:
        return self.usd / self.jobs


def figures() -> list[Figure]:
    """Mean dollars of a 48-hour job under each rule, and deadlines missed."""
    try:
        cases = read_cases(spot_folder(TRACES), WITHIN_MS)
    except UserError as error:
        return [
            Figure(
                scenario="spot in the loop", what="not run", measured="-", reference=error.problem
            )
        ]
    watch = Stopwatch()
    paid = {rule: Paid() for rule in DeadlineRule}
    with watch.lap():
        for case in cases:
            if case.group == TWO_MONTHS:
                _run_case(case, paid)
    theirs = paid[DeadlineRule.UNIFORM_PROGRESS].mean_usd
    named = f"two months, {paid[DeadlineRule.ON_DEMAND].jobs} jobs in the loop"
    found = [
        Figure(
            scenario=named,
            what=f"{rule.value}, $; missed",
            measured=f"{one.mean_usd:.2f}; {one.missed}",
            reference=f"below {theirs:.2f}; 0"
            if rule is DeadlineRule.EXPECTED_COST
            else "0 missed",
        )
        for rule, one in paid.items()
    ]
    time_taken = Figure(
        scenario=named, what="CPU", measured=f"{watch.total:.0f} s", reference="under 120 s"
    )
    return [*found, time_taken]


def _run_case(case: SpotCase, paid: dict[DeadlineRule, Paid]) -> None:
    intervals = [
        (tick * case.tick_ms, bool(machines)) for tick, machines in enumerate(case.available)
    ]
    for start in case.starts[::EVERY_WHICH_START]:
        timed = Timed(
            submitted_ms=start * case.tick_ms,
            hours=JOB_HOURS,
            within_ms=WITHIN_MS,
            checkpoint=CheckpointPolicy(interval_ms=case.tick_ms, restart_ms=RESTART_MS),
        )
        for rule, tally in paid.items():
            spot = SpotPolicy(deadline_rule=rule, tick_ms=case.tick_ms, change_over_ms=0)
            policies = replace(Policies(), spot=spot)
            done = run({"zone": intervals}, timed, policies, AT_ONCE, check=False)
            tally.usd += done.usd
            tally.jobs += 1
            tally.missed += done.done_ms is None or done.done_ms > start * case.tick_ms + WITHIN_MS

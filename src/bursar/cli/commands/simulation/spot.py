"""``bursar simulate spot``: spot, on demand or wait, under deadlines, on your own spot history."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Final

from bursar.cli.arguments import JSON, one_or_more
from bursar.cli.exit_codes import INTERRUPTED, OK
from bursar.cli.terminal.ctrl_c import noting_interrupts
from bursar.cli.terminal.output import print_json
from bursar.cli.terminal.progress import ProgressBar

SPOT: Final = "spot"


def add_spot_options(parser: argparse.ArgumentParser) -> None:
    """Options that only the study of spot takes."""
    group = parser.add_argument_group("the study of spot and deadlines, when TRACE is 'spot'")
    group.add_argument(
        "--history",
        action="append",
        default=[],
        metavar="FILE",
        help="spot machines and prices over time: a CSV with the columns at,machines,usd_per_hour "
        "(and pool), a recorded series, or an event log; may be given several times",
    )
    group.add_argument(
        "--on-demand-price", type=usd, default=0.0, metavar="USD", help="of a machine and hour"
    )
    group.add_argument(
        "--spot-price",
        type=usd,
        default=0.0,
        metavar="USD",
        help="the same on spot, where the history has no prices",
    )
    group.add_argument(
        "--machines", type=one_or_more, default=1, metavar="N", help="that a job needs (default 1)"
    )
    add_job_size(group)


def add_job_size(parser: argparse._ActionsContainer) -> None:
    """How large the job is and when it is due."""
    for name, usual, what in (
        ("--job-hours", 48.0, "work of a job"),
        ("--deadline-hours", 60.0, "from its start to its deadline"),
        ("--change-over-hours", 0.2, "without progress after each start or move"),
    ):
        about = f"{what} (default {usual:g})"
        parser.add_argument(name, type=hours, default=usual, metavar="H", help=about)


def hours(text: str) -> float:
    """A time of more than nothing."""
    return _between(text, 0.001, 10_000, "hours")


def usd(text: str) -> float:
    """A price of more than nothing."""
    return _between(text, 0.0001, 10_000, "dollars an hour")


def _between(text: str, least: float, most: float, unit: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not least <= number <= most:
        problem = f"{text!r} is not a number of {unit} from {least:g} to {most:g}"
        raise argparse.ArgumentTypeError(problem)
    return number


@dataclass(frozen=True, slots=True)
class _Tasks:
    """How many tasks are over, as the bar counts."""

    jobs_over: int
    jobs_in_all: int | None


class TasksBar(ProgressBar):
    """For a study in many small tasks."""

    def saw_tasks(self, done: int, in_all: int) -> bool:
        return self.draw([_Tasks(done, in_all)])


def run_spot(parsed: argparse.Namespace, *, watched: bool) -> int:
    """Run the study and show what came of it."""
    from bursar.wiring.spot import SpotOptions, spot_json, study_spot, tell_spot

    options = SpotOptions(
        histories=tuple(parsed.history),
        job_hours=parsed.job_hours,
        deadline_hours=parsed.deadline_hours,
        change_over_hours=parsed.change_over_hours,
        nodes=parsed.machines,
        on_demand_usd=parsed.on_demand_price,
        spot_usd=parsed.spot_price,
        rules=tuple(filter(None, parsed.policy.split(","))),
        starts=parsed.limit,
    )
    with noting_interrupts() as interrupt:
        bar = TasksBar(interrupt, shown=watched)
        outcome = study_spot(options, bar)
        bar.clear()
    if parsed.output == JSON:
        print_json(spot_json(outcome))
    else:
        sys.stdout.write(tell_spot(outcome))
    return OK if outcome.complete else INTERRUPTED

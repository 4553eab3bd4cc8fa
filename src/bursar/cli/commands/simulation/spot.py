"""``bursar simulate spot``: deadline rules for spot capacity on a recorded history."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from bursar.cli.arguments import JSON, Option, argument, group, one_or_more, repeatable
from bursar.cli.exit_codes import INTERRUPTED, OK
from bursar.cli.terminal.output import print_json
from bursar.cli.terminal.progress import progress_bar
from bursar.model.units import USD_MICRO

SPOT: Final = "spot"


def hours(text: str) -> float:
    """Parse a positive number of hours."""
    return _between(text, 0.001, 10_000, "hours")


def usd(text: str) -> int:
    """Parse a positive price into micro-dollars."""
    return round(_between(text, 0.0001, 10_000, "dollars an hour") * USD_MICRO)


def _between(text: str, least: float, most: float, unit: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not least <= number <= most:
        problem = f"{text!r} is not a number of {unit} from {least:g} to {most:g}"
        raise argparse.ArgumentTypeError(problem)
    return number


JOB_SIZE: Final[tuple[Option, ...]] = tuple(
    argument(name, "H", f"{meaning} (default {default:g})", type=hours, default=default)
    for name, default, meaning in (
        ("--job-hours", 48.0, "run time of a job"),
        ("--deadline-hours", 60.0, "time from its start to its deadline"),
        ("--change-over-hours", 0.2, "time without progress after each start or move"),
    )
)
"""The size and the deadline of a job."""
SPOT_OPTIONS: Final = group(
    "spot study, if TRACE is 'spot'",
    repeatable(
        "--history",
        "FILE",
        "history of spot machines and prices: a CSV with the columns at,machines,usd_per_hour "
        "(and pool), a recorded series, or an event log; repeatable",
    ),
    argument(
        "--on-demand-price", "USD", "on-demand price of a machine per hour", type=usd, default=0
    ),
    argument(
        "--spot-price",
        "USD",
        "spot price of a machine per hour, if the history has no prices",
        type=usd,
        default=0,
    ),
    argument(
        "--machines", "N", "machines that a job needs (default 1)", type=one_or_more, default=1
    ),
    *JOB_SIZE,
)


def run_spot(parsed: argparse.Namespace, *, with_progress: bool) -> int:
    """Run the study and print its results."""
    from bursar.wiring.spot import (
        HistoryStudy,
        JobSize,
        run_history_study,
        spot_json,
        spot_text,
    )

    study = HistoryStudy(
        histories=tuple(parsed.history),
        size=JobSize(
            job_hours=parsed.job_hours,
            deadline_hours=parsed.deadline_hours,
            change_over_hours=parsed.change_over_hours,
        ),
        rules=tuple(filter(None, parsed.policy.split(","))),
        starts=parsed.limit,
        nodes=parsed.machines,
        on_demand_micro_usd=parsed.on_demand_price,
        spot_micro_usd=parsed.spot_price,
    )
    with progress_bar(shown=with_progress) as bar:
        outcome = run_history_study(study, bar.draw)
    if parsed.output == JSON:
        print_json(spot_json(outcome))
    else:
        sys.stdout.write(spot_text(outcome))
    return OK if outcome.complete else INTERRUPTED

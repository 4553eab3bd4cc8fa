"""``bursar simulate spot``: spot, on demand or wait, under deadlines, on measured spot capacity."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from typing import Final

from bursar.cli.exit_codes import INTERRUPTED, OK
from bursar.cli.interrupts import noting_interrupts
from bursar.cli.output import print_json
from bursar.cli.parsers import JSON
from bursar.cli.progress import Bar

SPOT: Final = "spot"
FOLDER_VARIABLE: Final = "BURSAR_TRACES"
USUAL_FOLDER: Final = os.path.join(os.pardir, "shared", "traces")


def add_spot_options(parser: argparse.ArgumentParser) -> None:
    """Options that only the study of spot takes."""
    group = parser.add_argument_group("the study of spot and deadlines, when TRACE is 'spot'")
    group.add_argument(
        "--traces",
        metavar="FOLDER",
        help=f"where spot traces and prices are (default: {FOLDER_VARIABLE}, else {USUAL_FOLDER})",
    )
    group.add_argument(
        "--job-hours", type=hours, default=48.0, metavar="H", help="work of a job (default 48)"
    )
    group.add_argument(
        "--deadline-hours",
        type=hours,
        default=60.0,
        metavar="H",
        help="from its start to its deadline (default 60)",
    )
    group.add_argument(
        "--change-over-hours",
        type=hours,
        default=0.2,
        metavar="H",
        help="without progress after each start or move (default 0.2)",
    )
    group.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="PART",
        help="traces, published, zones, prices, fine-tuning or all; may be given several times "
        "(default: traces)",
    )


def hours(text: str) -> float:
    """A time of more than nothing."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.001 <= number <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours from 0.001 to 10000")
    return number


@dataclass(frozen=True, slots=True)
class _Tasks:
    """How many tasks are over, as the bar counts."""

    jobs_over: int
    jobs_in_all: int | None


class TasksBar(Bar):
    """For a study in many small tasks."""

    def saw_tasks(self, done: int, in_all: int) -> bool:
        return self.draw([_Tasks(done, in_all)])


def run_spot(parsed: argparse.Namespace, *, watched: bool) -> int:
    """Run the study and show what came of it."""
    from bursar.wiring.spot import SpotOptions, spot_json, study_spot, tell_spot

    options = SpotOptions(
        traces=parsed.traces or os.environ.get(FOLDER_VARIABLE) or USUAL_FOLDER,
        job_hours=parsed.job_hours,
        deadline_hours=parsed.deadline_hours,
        change_over_hours=parsed.change_over_hours,
        rules=tuple(filter(None, parsed.policy.split(","))),
        parts=tuple(parsed.part),
        limit=parsed.limit,
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

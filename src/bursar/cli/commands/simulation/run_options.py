"""The options of all commands that simulate a workload."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.cli.arguments import Option, argument, group, one_or_more, whole
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.units import SECOND_MS

if TYPE_CHECKING:
    from bursar.wiring.run_requests import RunRequest

TEXT = "text"
TABLE = "table"
JSON = "json"
START_SECONDS = 20
STOP_SECONDS = 30


TRACE: tuple[Option, ...] = (
    argument(
        "trace",
        metavar="TRACE",
        help="a file, ARCHIVE::MEMBER, or a generated workload: synthetic:philly-like?jobs=2000&load=0.9",
    ),
    argument("--format", metavar="NAME", help="trace format, if it is not recognised"),
    argument("--seed", type=whole, default=0, metavar="N", help="random seed (default 0)"),
)
"""The options that choose the workload."""
RUN: tuple[Option, ...] = (
    *TRACE,
    argument(
        "--limit", type=one_or_more, metavar="N", help="use only the first N jobs of the trace"
    ),
    argument(
        "--faults",
        default="",
        metavar="LIST",
        help="faults to inject: spot, spot=POOL:FILE, node-loss=PER_MILLION_HOURS, "
        "failure=PROBABILITY, straggler=PROBABILITY, slow-start=SECONDS; separate with commas",
    ),
    group(
        "mapping the trace to the fleet",
        argument(
            "--one-queue",
            action="store_true",
            help="put teams that are not in the fleet into one queue, 'default'",
        ),
        argument(
            "--pin-teams",
            metavar="LABEL",
            help="run each queue's jobs only on nodes whose label LABEL is the queue's name",
        ),
        argument("--any-model", action="store_true", help="ignore the requested GPU models"),
        argument("--spot", action="store_true", help="allow every job to run on spot capacity"),
        argument(
            "--mig",
            action="store_true",
            help="map fractions of a GPU to MIG slices instead of shares",
        ),
        argument(
            "--retries",
            type=whole,
            default=0,
            metavar="N",
            help="retries of each failed job (default 0)",
        ),
    ),
    group(
        "durations in seconds",
        argument(
            "--checkpoint", type=one_or_more, metavar="S", help="checkpoint interval of all jobs"
        ),
        argument(
            "--restart-cost",
            type=whole,
            default=0,
            metavar="S",
            help="time lost when a job restarts (default 0)",
        ),
        argument(
            "--start-delay",
            type=whole,
            default=START_SECONDS,
            metavar="S",
            help=f"time from a decision to a running job (default {START_SECONDS})",
        ),
        argument(
            "--stop-delay",
            type=whole,
            default=STOP_SECONDS,
            metavar="S",
            help=f"time from a stop order to free GPUs (default {STOP_SECONDS})",
        ),
    ),
)
"""The options that affect the results."""
OUTPUT: Option = argument(
    "-o",
    "--output",
    choices=(TEXT, TABLE, JSON),
    default=TEXT,
    help="output format (default: text; table is the same)",
)
PAGE: tuple[Option, ...] = (
    argument("--html", metavar="FILE", help="also write an HTML page with plots"),
    argument(
        "--progress",
        action="store_true",
        help="show a progress bar even if standard error is not a terminal",
    ),
)


def run_requests(
    parsed: argparse.Namespace, fleets: Sequence[str], policies: Sequence[str]
) -> list[RunRequest]:
    """One request for each fleet and policy."""
    from bursar.wiring.run_requests import (
        Delays,
        RunRequest,
        TraceMapping,
        choose_fleet,
        every_run,
    )

    chosen = [choose_fleet(path) for path in fleets]
    checkpoint_seconds = parsed.checkpoint
    log = getattr(parsed, "log", None)
    request = RunRequest(
        name="",
        source=parsed.trace,
        fleet=chosen[0],
        format=parsed.format,
        limit=parsed.limit,
        mapping=TraceMapping(
            teams_share_a_queue=parsed.one_queue,
            pin_label=parsed.pin_teams,
            any_model=parsed.any_model,
            may_use_spot=parsed.spot,
            parts_are_slices=parsed.mig,
            checkpoint=CheckpointPolicy(
                interval_ms=None if checkpoint_seconds is None else checkpoint_seconds * SECOND_MS,
                restart_ms=parsed.restart_cost * SECOND_MS,
            ),
            retries=parsed.retries,
        ),
        seed=parsed.seed,
        faults=parsed.faults,
        delays=Delays(
            start_ms=parsed.start_delay * SECOND_MS, stop_ms=parsed.stop_delay * SECOND_MS
        ),
        log=Path(log) if log else None,
    )
    return every_run(request, chosen, policies)


def shows_progress(parsed: argparse.Namespace) -> bool:
    """Whether to show a progress bar."""
    return bool(parsed.progress) or sys.stderr.isatty()

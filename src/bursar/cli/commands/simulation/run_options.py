"""The options of all commands that simulate a workload."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.cli.arguments import one_or_more, whole
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.units import SECOND_MS

if TYPE_CHECKING:
    from bursar.wiring.run_requests import RunRequest

TEXT = "text"
TABLE = "table"
JSON = "json"
START_SECONDS = 20
STOP_SECONDS = 30


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that affect the results."""
    add_trace(parser)
    parser.add_argument(
        "--limit", type=one_or_more, metavar="N", help="use only the first N jobs of the trace"
    )
    parser.add_argument(
        "--faults",
        default="",
        metavar="LIST",
        help="faults to inject: spot, spot=POOL:FILE, node-loss=PER_MILLION_HOURS, "
        "failure=PROBABILITY, straggler=PROBABILITY, slow-start=SECONDS; separate with commas",
    )
    _add_mapping_options(parser)
    _add_time_options(parser)


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the workload."""
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="a file, ARCHIVE::MEMBER, or a generated workload: synthetic:philly-like?jobs=2000&load=0.9",
    )
    parser.add_argument("--format", metavar="NAME", help="trace format, if it is not recognised")
    parser.add_argument(
        "--seed", type=whole, default=0, metavar="N", help="random seed (default 0)"
    )


def add_output(parser: argparse.ArgumentParser, *, html: bool = False) -> None:
    """Add the options for the output."""
    parser.add_argument(
        "-o",
        "--output",
        choices=(TEXT, TABLE, JSON),
        default=TEXT,
        help="output format (default: text; table is the same)",
    )
    if html:
        parser.add_argument("--html", metavar="FILE", help="also write an HTML page with plots")
        parser.add_argument(
            "--progress",
            action="store_true",
            help="show a progress bar even if standard error is not a terminal",
        )


def _add_mapping_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("mapping the trace to the fleet")
    group.add_argument(
        "--one-queue",
        action="store_true",
        help="put teams that are not in the fleet into one queue, 'default'",
    )
    group.add_argument(
        "--pin-teams",
        metavar="LABEL",
        help="run each queue's jobs only on nodes whose label LABEL is the queue's name",
    )
    group.add_argument("--any-model", action="store_true", help="ignore the requested GPU models")
    group.add_argument(
        "--spot", action="store_true", help="allow every job to run on spot capacity"
    )
    group.add_argument(
        "--mig", action="store_true", help="map fractions of a GPU to MIG slices instead of shares"
    )
    group.add_argument(
        "--retries",
        type=whole,
        default=0,
        metavar="N",
        help="retries of each failed job (default 0)",
    )


def _add_time_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("durations in seconds")
    group.add_argument(
        "--checkpoint", type=one_or_more, metavar="S", help="checkpoint interval of all jobs"
    )
    group.add_argument(
        "--restart-cost",
        type=whole,
        default=0,
        metavar="S",
        help="time lost when a job restarts (default 0)",
    )
    group.add_argument(
        "--start-delay",
        type=whole,
        default=START_SECONDS,
        metavar="S",
        help=f"time from a decision to a running job (default {START_SECONDS})",
    )
    group.add_argument(
        "--stop-delay",
        type=whole,
        default=STOP_SECONDS,
        metavar="S",
        help=f"time from a stop order to free GPUs (default {STOP_SECONDS})",
    )


def run_requests(
    parsed: argparse.Namespace, fleets: Sequence[str], policies: Sequence[str]
) -> list[RunRequest]:
    """One request for each fleet and policy."""
    from bursar.wiring.run_requests import (
        Delays,
        RunRequest,
        WorkloadOptions,
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
        workload=WorkloadOptions(
            format=parsed.format,
            limit=parsed.limit,
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

"""The options of all commands that simulate a workload."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.cli.arguments import Option, argument, choice, flag, group, one_or_more, whole
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
        "TRACE",
        "a file, ARCHIVE::MEMBER, or a generated workload: synthetic:philly-like?jobs=2000&load=0.9",
    ),
    argument("--format", "NAME", "trace format, if it is not recognised"),
    argument("--seed", "N", "random seed (default 0)", type=whole, default=0),
)
"""The options that choose the workload."""
RUN: tuple[Option, ...] = (
    *TRACE,
    argument("--limit", "N", "use only the first N jobs of the trace", type=one_or_more),
    argument(
        "--faults",
        "LIST",
        "faults to inject: spot, spot=POOL:FILE, node-loss=PER_MILLION_HOURS, "
        "failure=PROBABILITY, straggler=PROBABILITY, slow-start=SECONDS; separate with commas",
        default="",
    ),
    group(
        "mapping the trace to the fleet",
        flag("--one-queue", "put teams that are not in the fleet into one queue, 'default'"),
        argument(
            "--pin-teams",
            "LABEL",
            "run each queue's jobs only on nodes whose label LABEL is the queue's name",
        ),
        flag("--any-model", "ignore the requested GPU models"),
        flag("--spot", "allow every job to run on spot capacity"),
        flag("--mig", "map fractions of a GPU to MIG slices instead of shares"),
        argument("--retries", "N", "retries of each failed job (default 0)", type=whole, default=0),
    ),
    group(
        "durations in seconds",
        argument("--checkpoint", "S", "checkpoint interval of all jobs", type=one_or_more),
        argument(
            "--restart-cost",
            "S",
            "time lost when a job restarts (default 0)",
            type=whole,
            default=0,
        ),
        argument(
            "--start-delay",
            "S",
            f"time from a decision to a running job (default {START_SECONDS})",
            type=whole,
            default=START_SECONDS,
        ),
        argument(
            "--stop-delay",
            "S",
            f"time from a stop order to free GPUs (default {STOP_SECONDS})",
            type=whole,
            default=STOP_SECONDS,
        ),
    ),
)
"""The options that affect the results."""
OUTPUT: Option = choice(
    "-o --output",
    (TEXT, TABLE, JSON),
    "output format (default: text; table is the same)",
    default=TEXT,
)
PAGE: tuple[Option, ...] = (
    argument("--html", "FILE", "also write an HTML page with plots"),
    flag("--progress", "show a progress bar even if standard error is not a terminal"),
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

"""The options that every command takes that runs a workload."""

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
    """What decides the numbers."""
    add_trace(parser)
    parser.add_argument(
        "--limit", type=one_or_more, metavar="N", help="only the first N jobs of the trace"
    )
    parser.add_argument(
        "--faults",
        default="",
        metavar="LIST",
        help="what goes wrong: spot, spot=POOL:FILE, node-loss=PER_MILLION_HOURS, failure=CHANCE, "
        "straggler=CHANCE, slow-start=SECONDS; several with commas",
    )
    _add_mapping_options(parser)
    _add_time_options(parser)


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Which workload."""
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="a file, ARCHIVE::MEMBER, or a workload to draw: synthetic:philly-like?jobs=2000&load=0.9",
    )
    parser.add_argument("--format", metavar="NAME", help="the trace's format, if not recognised")
    parser.add_argument(
        "--seed", type=whole, default=0, metavar="N", help="of all chance (default 0)"
    )


def add_output(parser: argparse.ArgumentParser, *, html: bool = False) -> None:
    """How the result is shown."""
    parser.add_argument(
        "-o",
        "--output",
        choices=(TEXT, TABLE, JSON),
        default=TEXT,
        help="for people (table means the same as text) or for programs",
    )
    if html:
        parser.add_argument("--html", metavar="FILE", help="also write a page with plots")
        parser.add_argument(
            "--progress", action="store_true", help="show a bar even when nobody may be watching"
        )


def _add_mapping_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how the trace meets the fleet")
    group.add_argument(
        "--one-queue",
        action="store_true",
        help="teams that the fleet does not know share one queue, 'default'",
    )
    group.add_argument(
        "--pin-teams",
        metavar="LABEL",
        help="each queue's jobs only on nodes whose label LABEL is its name",
    )
    group.add_argument(
        "--any-model", action="store_true", help="forget which GPU models were asked for"
    )
    group.add_argument(
        "--spot", action="store_true", help="every job may also run on spot capacity"
    )
    group.add_argument(
        "--mig", action="store_true", help="parts of a GPU are MIG slices instead of shares"
    )
    group.add_argument(
        "--retries", type=whole, default=0, metavar="N", help="of each job that fails (default 0)"
    )


def _add_time_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how long things take, in seconds")
    group.add_argument(
        "--checkpoint", type=one_or_more, metavar="S", help="jobs save their work so often"
    )
    group.add_argument(
        "--restart-cost", type=whole, default=0, metavar="S", help="of going on after a stop"
    )
    group.add_argument(
        "--start-delay",
        type=whole,
        default=START_SECONDS,
        metavar="S",
        help=f"from a decision to a running job (default {START_SECONDS})",
    )
    group.add_argument(
        "--stop-delay",
        type=whole,
        default=STOP_SECONDS,
        metavar="S",
        help=f"from an order to stop to free GPUs (default {STOP_SECONDS})",
    )


def run_requests(
    parsed: argparse.Namespace, fleets: Sequence[str], policies: Sequence[str]
) -> list[RunRequest]:
    """One request for each fleet and policy, as the options say."""
    from bursar.wiring.run_requests import (
        Delays,
        RunRequest,
        WorkloadOptions,
        choose_fleet,
        every_run,
    )

    chosen = [choose_fleet(path) for path in fleets]
    every = parsed.checkpoint
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
                interval_ms=None if every is None else every * SECOND_MS,
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


def someone_watches(parsed: argparse.Namespace) -> bool:
    """Whether a bar is wanted."""
    return bool(parsed.progress) or sys.stderr.isatty()

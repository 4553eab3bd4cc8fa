"""``bursar simulate``: simulate a trace on a fleet under a policy."""

from __future__ import annotations

import argparse
import sys

from bursar.cli.arguments import argument, command
from bursar.cli.commands.simulation.run_options import (
    JSON,
    OUTPUT,
    PAGE,
    RUN,
    run_requests,
    shows_progress,
)
from bursar.cli.commands.simulation.spot import SPOT, SPOT_OPTIONS, run_spot
from bursar.cli.exit_codes import INTERRUPTED, OK, WRONG_USAGE
from bursar.cli.terminal.messages import print_error
from bursar.cli.terminal.output import expect_writable, print_json, write_page
from bursar.cli.terminal.progress import progress_bar
from bursar.wiring.simulation import page_of


@command(
    "simulate",
    *RUN,
    argument(
        "--fleet", "FILE", "fleet file, or folder of fleet files; required unless TRACE is 'spot'"
    ),
    argument(
        "--policy",
        "P",
        "policy name such as fifo-strict, or order=sjf,backfill=easy (default: the fleet file's)",
        default="",
    ),
    argument("--placement", "P", "placement policy such as best-fit (default: the policy's)"),
    argument("--log", "FILE", "also write an event log of the run"),
    OUTPUT,
    *PAGE,
    SPOT_OPTIONS,
    examples=(
        "bursar simulate synthetic:philly-like?jobs=2000 --fleet fleet.yaml --html run.html",
        "bursar simulate spot --history spot.csv --on-demand-price 3.06 --deadline-hours 52",
    ),
)
def simulate(parsed: argparse.Namespace) -> int:
    """Simulate a trace on a fleet; print waits, utilisation, fairness and cost.

    The scheduler is the one that runs in production. The same input and seed give the same numbers. Ctrl-C
    stops early and prints partial results.
    """
    from bursar.wiring.run_requests import prepare, run_text

    if parsed.trace == SPOT:
        return run_spot(parsed, with_progress=shows_progress(parsed))
    if parsed.fleet is None:
        print_error("no fleet is given.", "Pass --fleet FILE.")
        return WRONG_USAGE
    expect_writable(parsed.html)
    placement = f"placement={parsed.placement}" if parsed.placement else ""
    policy = ",".join(filter(None, (parsed.policy, placement)))
    (request,) = run_requests(parsed, [parsed.fleet], [policy])
    prepared = prepare(request)
    with progress_bar(shown=shows_progress(parsed)) as bar:
        outcome = prepared.carry_out(bar.draw)
    if parsed.html:
        write_page(parsed.html, page_of([outcome]))
    if parsed.output == JSON:
        print_json(outcome.as_json())
    else:
        sys.stdout.write(run_text(outcome))
    return OK if outcome.complete else INTERRUPTED

"""``bursar simulate``: one trace on one fleet under one policy."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from bursar.cli.arguments import new_parser
from bursar.cli.commands.simulation.run_options import (
    JSON,
    add_output,
    add_run_options,
    run_requests,
    someone_watches,
)
from bursar.cli.commands.simulation.spot import SPOT, add_spot_options, run_spot
from bursar.cli.exit_codes import INTERRUPTED, OK, WRONG_USAGE
from bursar.cli.terminal.ctrl_c import noting_interrupts
from bursar.cli.terminal.messages import print_error
from bursar.cli.terminal.output import expect_writable, print_json, write_page
from bursar.cli.terminal.progress import RunBar

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers

HELP = "run a trace on a fleet under a policy; say what waits, use, fairness and cost become"


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    parser = new_parser(
        commands,
        "simulate",
        (
            HELP,
            "Runs a trace on a fleet with the function that schedules for real, and measures "
            "it. The same input and seed give the same numbers. Ctrl-C keeps what is done.",
        ),
        (
            "bursar simulate synthetic:philly-like?jobs=2000 --fleet fleet.yaml --html run.html",
            "bursar simulate spot --history spot.csv --on-demand-price 3.06 --deadline-hours 52",
        ),
    )
    add_run_options(parser)
    parser.add_argument(
        "--fleet",
        metavar="FILE",
        help="a fleet file, or a folder of them; needed unless TRACE is 'spot'",
    )
    parser.add_argument(
        "--policy",
        default="",
        metavar="P",
        help="a name such as fifo-strict, or order=sjf,backfill=easy (default: the fleet file's)",
    )
    parser.add_argument(
        "--placement",
        metavar="P",
        help="which node of those that fit, such as best-fit (default: the policy's)",
    )
    parser.add_argument("--log", metavar="FILE", help="also write every event of the run")
    add_output(parser, html=True)
    add_spot_options(parser)


def run(parsed: argparse.Namespace) -> int:
    """Run it and show what came of it."""
    from bursar.wiring import simulation

    if parsed.trace == SPOT:
        return run_spot(parsed, watched=someone_watches(parsed))
    if parsed.fleet is None:
        print_error("a simulated trace needs a fleet.", "Name its file with --fleet FILE.")
        return WRONG_USAGE
    expect_writable(parsed.html)
    placement = f"placement={parsed.placement}" if parsed.placement else ""
    policy = ",".join(filter(None, (parsed.policy, placement)))
    (request,) = run_requests(parsed, [parsed.fleet], [policy])
    prepared = simulation.prepare_run(request)
    with noting_interrupts() as interrupt:
        bar = RunBar(interrupt, shown=someone_watches(parsed))
        outcome = prepared.carry_out(bar)
        bar.clear()
    if parsed.html:
        write_page(parsed.html, simulation.page_of([outcome]))
    if parsed.output == JSON:
        print_json(outcome.as_json())
    else:
        sys.stdout.write(simulation.run_text(outcome))
    return OK if outcome.complete else INTERRUPTED

"""``bursar compare``: run a trace under several policies or fleets and compare them."""

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
    shows_progress,
)
from bursar.cli.exit_codes import INTERRUPTED, OK
from bursar.cli.terminal.ctrl_c import catch_interrupt
from bursar.cli.terminal.output import expect_writable, print_json, write_page
from bursar.cli.terminal.progress import ProgressBar

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    parser = new_parser(
        commands,
        "compare",
        (
            "compare several policies or fleets on one trace",
            "Every policy runs on every fleet, each run in its own process. The result is one table; the "
            "first run is the baseline.",
        ),
        ("bursar compare trace.csv --fleet fleet.yaml --policy fifo-strict --policy order=sjf",),
    )
    add_run_options(parser)
    parser.add_argument(
        "--fleet",
        required=True,
        action="append",
        metavar="FILE",
        help="fleet file, or folder of fleet files; repeatable",
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="P",
        help="as in 'bursar simulate'; repeatable (default: the policies of the fleet file)",
    )
    add_output(parser, html=True)


def run(parsed: argparse.Namespace) -> int:
    """Run all simulations and print the comparison."""
    from bursar.wiring import simulation

    expect_writable(parsed.html)
    with catch_interrupt() as interrupt:
        bar = ProgressBar(interrupt, shown=shows_progress(parsed))
        requests = run_requests(parsed, parsed.fleet, parsed.policy)
        outcomes, requested = simulation.compare_runs(requests, bar.draw), len(requests)
        bar.clear()
    if parsed.html and outcomes:
        write_page(parsed.html, simulation.page_of(outcomes))
    if parsed.output == JSON:
        print_json({**simulation.comparison_json(outcomes), "runs_asked_for": requested})
    else:
        sys.stdout.write(simulation.comparison_text(outcomes))
        if len(outcomes) < requested:
            not_started = requested - len(outcomes)
            print(f"\nstopped early: {not_started} of {requested} runs did not start")
    complete = len(outcomes) == requested and all(one.complete for one in outcomes)
    return OK if complete else INTERRUPTED

"""``bursar compare``: one trace under several policies or on several fleets, in one table."""

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
from bursar.cli.exit_codes import INTERRUPTED, OK
from bursar.cli.terminal.ctrl_c import noting_interrupts
from bursar.cli.terminal.output import expect_writable, print_json, write_page
from bursar.cli.terminal.progress import RunsBar

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    parser = new_parser(
        commands,
        "compare",
        (
            "run a trace under several policies or on several fleets; one table",
            "Runs every policy on every fleet, each in a process of its own, and puts the "
            "numbers beside each other. The first run is the one the others are measured against.",
        ),
        ("bursar compare trace.csv --fleet fleet.yaml --policy fifo-strict --policy order=sjf",),
    )
    add_run_options(parser)
    parser.add_argument(
        "--fleet",
        required=True,
        action="append",
        metavar="FILE",
        help="a fleet file, or a folder of them; may be given several times",
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="P",
        help="as in 'bursar simulate'; may be given several times (default: the fleet file's)",
    )
    add_output(parser, html=True)


def run(parsed: argparse.Namespace) -> int:
    """Run them all and show them beside each other."""
    from bursar.wiring import simulation

    expect_writable(parsed.html)
    with noting_interrupts() as interrupt:
        bar = RunsBar(interrupt, shown=someone_watches(parsed))
        requests = run_requests(parsed, parsed.fleet, parsed.policy)
        outcomes, asked = simulation.compare_runs(requests, bar), len(requests)
        bar.clear()
    if parsed.html and outcomes:
        write_page(parsed.html, simulation.page_of(outcomes))
    if parsed.output == JSON:
        print_json({**simulation.comparison_json(outcomes), "runs_asked_for": asked})
    else:
        sys.stdout.write(simulation.comparison_text(outcomes))
        if len(outcomes) < asked:
            print(f"\nstopped early: {asked - len(outcomes)} of {asked} runs had not begun")
    complete = len(outcomes) == asked and all(one.complete for one in outcomes)
    return OK if complete else INTERRUPTED

"""``bursar compare``: one trace under several policies or on several fleets, in one table."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from bursar.cli.exit_codes import INTERRUPTED, OK
from bursar.cli.interrupts import noting_interrupts
from bursar.cli.output import expect_writable, print_json, write_page
from bursar.cli.parsers import new_parser
from bursar.cli.progress import RunsBar
from bursar.cli.run_options import JSON, add_output, add_run_options, someone_watches, study_options

if TYPE_CHECKING:
    from bursar.cli.parsers import Subparsers


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
    from bursar import wiring

    expect_writable(parsed.html)
    with noting_interrupts() as interrupt:
        bar = RunsBar(interrupt, shown=someone_watches(parsed))
        outcomes, asked = wiring.compare_runs(
            parsed.trace, parsed.fleet, parsed.policy, study_options(parsed), bar
        )
        bar.clear()
    if parsed.html and outcomes:
        write_page(parsed.html, wiring.page_of(outcomes))
    if parsed.output == JSON:
        print_json({**wiring.comparison_json(outcomes), "runs_asked_for": asked})
    else:
        sys.stdout.write(wiring.tell_comparison(outcomes))
        if len(outcomes) < asked:
            print(f"\nstopped early: {asked - len(outcomes)} of {asked} runs had not begun")
    complete = len(outcomes) == asked and all(one.complete for one in outcomes)
    return OK if complete else INTERRUPTED

"""``bursar whatif``: replay a recorded history with a change."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from bursar.cli.arguments import new_parser
from bursar.cli.commands.simulation.run_options import JSON, add_output, shows_progress
from bursar.cli.exit_codes import INTERRUPTED, OK
from bursar.cli.terminal.ctrl_c import catch_interrupt
from bursar.cli.terminal.output import expect_writable, print_json, write_page
from bursar.cli.terminal.progress import ProgressBar

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers

RUNS = 2


def add_parser(commands: Subparsers) -> None:
    parser = new_parser(
        commands,
        "whatif",
        (
            "replay a recorded history with a changed quota, weight, policy or number of nodes",
            "The history is simulated twice: on the recorded fleet, and with the changes. Jobs keep "
            "their recorded run times. 'bursar simulate --log FILE' writes such a log.",
        ),
        ("bursar whatif run.jsonl --change nodes.a100=16 --change weight.vision=2",),
    )
    parser.add_argument("log", metavar="LOG", help="event log")
    parser.add_argument(
        "--change",
        required=True,
        action="append",
        metavar="PATH=VALUE",
        help="quota.TENANT.FLAVOR=GPUS, weight.TENANT=W, nodes.POOL=N, policy.PART=NAME; "
        "repeatable",
    )
    add_output(parser, html=True)


def run(parsed: argparse.Namespace) -> int:
    """Run both simulations and print the comparison."""
    from bursar.wiring import simulation

    expect_writable(parsed.html)
    prepared = simulation.prepare_whatif(parsed.log, parsed.change)
    with catch_interrupt() as interrupt:
        bar = ProgressBar(interrupt, shown=shows_progress(parsed))
        outcomes = prepared.carry_out(bar.draw)
        bar.clear()
    if parsed.html:
        write_page(parsed.html, simulation.page_of(outcomes))
    if parsed.output == JSON:
        print_json(simulation.comparison_json(outcomes))
    else:
        print(f"changed: {', '.join(parsed.change)}")
        sys.stdout.write(simulation.comparison_text(outcomes))
    complete = len(outcomes) == RUNS and all(one.complete for one in outcomes)
    return OK if complete else INTERRUPTED

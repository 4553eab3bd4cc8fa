"""``bursar whatif``: a recorded history again, as it was and with something changed."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from bursar.cli.arguments import new_parser
from bursar.cli.commands.simulation.run_options import JSON, add_output, someone_watches
from bursar.cli.exit_codes import INTERRUPTED, OK
from bursar.cli.terminal.ctrl_c import noting_interrupts
from bursar.cli.terminal.output import expect_writable, print_json, write_page
from bursar.cli.terminal.progress import RunBar

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers

RUNS = 2


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    parser = new_parser(
        commands,
        "whatif",
        (
            "run a recorded history again with a quota, a weight, nodes or a policy changed",
            "Runs what a log recorded twice: on the fleet as it was, and with the changes. "
            "Jobs run as long as they did. 'bursar simulate --log FILE' writes such a log.",
        ),
        ("bursar whatif run.jsonl --change nodes.a100=16 --change weight.vision=2",),
    )
    parser.add_argument("log", metavar="LOG", help="an event log")
    parser.add_argument(
        "--change",
        required=True,
        action="append",
        metavar="PATH=VALUE",
        help="quota.TENANT.FLAVOR=GPUS, weight.TENANT=W, nodes.POOL=N, policy.PART=NAME; "
        "may be given several times",
    )
    add_output(parser, html=True)


def run(parsed: argparse.Namespace) -> int:
    """Run both and show them beside each other."""
    from bursar.wiring import simulation

    expect_writable(parsed.html)
    prepared = simulation.prepare_whatif(parsed.log, parsed.change)
    with noting_interrupts() as interrupt:
        bar = RunBar(interrupt, shown=someone_watches(parsed))
        outcomes = prepared.carry_out(bar)
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

"""``bursar whatif``: replay a recorded history with a change."""

from __future__ import annotations

import argparse
import sys

from bursar.cli.arguments import argument, command
from bursar.cli.commands.simulation.run_options import JSON, OUTPUT, PAGE, shows_progress
from bursar.cli.exit_codes import INTERRUPTED, OK
from bursar.cli.terminal.output import expect_writable, print_json, write_page
from bursar.cli.terminal.progress import progress_bar
from bursar.wiring.simulation import page_of

RUNS = 2


@command(
    "whatif",
    argument("log", "LOG", "event log"),
    argument(
        "--change",
        "PATH=VALUE",
        "quota.TENANT.FLAVOR=GPUS, weight.TENANT=W, nodes.POOL=N, policy.PART=NAME; repeatable",
        required=True,
        action="append",
    ),
    OUTPUT,
    *PAGE,
    examples=("bursar whatif run.jsonl --change nodes.a100=16 --change weight.vision=2",),
)
def whatif(parsed: argparse.Namespace) -> int:
    """Replay a recorded history with a changed quota, weight, policy or number of nodes.

    The history is simulated twice: on the recorded fleet, and with the changes. Jobs keep their recorded run
    times. 'bursar simulate --log FILE' writes such a log.
    """
    from bursar.wiring.run_requests import comparison_json, comparison_text, prepare_whatif

    expect_writable(parsed.html)
    prepared = prepare_whatif(parsed.log, parsed.change)
    with progress_bar(shown=shows_progress(parsed)) as bar:
        outcomes = prepared.carry_out(bar.draw)
    if parsed.html:
        write_page(parsed.html, page_of(outcomes))
    if parsed.output == JSON:
        print_json(comparison_json(outcomes))
    else:
        print(f"changed: {', '.join(parsed.change)}")
        sys.stdout.write(comparison_text(outcomes))
    complete = len(outcomes) == RUNS and all(one.complete for one in outcomes)
    return OK if complete else INTERRUPTED

"""``bursar compare``: run a trace under several policies or fleets and compare them."""

from __future__ import annotations

import argparse
import sys

from bursar.cli.arguments import argument, command, repeatable
from bursar.cli.commands.simulation.run_options import (
    JSON,
    OUTPUT,
    PAGE,
    RUN,
    run_requests,
    shows_progress,
)
from bursar.cli.exit_codes import INTERRUPTED, OK
from bursar.cli.terminal.output import expect_writable, print_json, write_page
from bursar.cli.terminal.progress import progress_bar
from bursar.wiring.simulation import page_of


@command(
    "compare",
    *RUN,
    argument(
        "--fleet",
        "FILE",
        "fleet file, or folder of fleet files; repeatable",
        required=True,
        action="append",
    ),
    repeatable(
        "--policy",
        "P",
        "as in 'bursar simulate'; repeatable (default: the policies of the fleet file)",
    ),
    OUTPUT,
    *PAGE,
    examples=(
        "bursar compare trace.csv --fleet fleet.yaml --policy fifo-strict --policy order=sjf",
    ),
)
def compare(parsed: argparse.Namespace) -> int:
    """Compare several policies or fleets on one trace.

    Every policy runs on every fleet, each run in its own process. The result is one table; the first run is
    the baseline.
    """
    from bursar.wiring import run_requests as runs

    expect_writable(parsed.html)
    with progress_bar(shown=shows_progress(parsed)) as bar:
        requests = run_requests(parsed, parsed.fleet, parsed.policy)
        outcomes, requested = runs.compare_runs(requests, bar.draw), len(requests)
    if parsed.html and outcomes:
        write_page(parsed.html, page_of(outcomes))
    if parsed.output == JSON:
        print_json({**runs.comparison_json(outcomes), "runs_asked_for": requested})
    else:
        sys.stdout.write(runs.comparison_text(outcomes))
        if len(outcomes) < requested:
            not_started = requested - len(outcomes)
            print(f"\nstopped early: {not_started} of {requested} runs did not start")
    complete = len(outcomes) == requested and all(one.complete for one in outcomes)
    return OK if complete else INTERRUPTED

"""Runs the published study of spot and deadlines."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bursar.cli.arguments import one_or_more
from bursar.cli.commands.simulation.run_options import JSON, OUTPUT, shows_progress
from bursar.cli.commands.simulation.spot import JOB_SIZE
from bursar.cli.exit_codes import FAILED, INTERRUPTED, OK
from bursar.cli.terminal.messages import print_error
from bursar.cli.terminal.output import print_json
from bursar.cli.terminal.progress import progress_bar
from bursar.core.deadline.deadline_rules import POLICIES
from bursar.model.errors import UserError
from bursar.simulate.spot_study.cells import JobSize
from bursar.simulate.spot_study.text import spot_json
from studies.spot_deadlines import PARTS, SpotRequest, run_spot_study
from studies.spot_deadlines.text import published_text

ALL = "all"
FOLDER_VARIABLE = "BURSAR_TRACES"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study and prints the results."""
    parsed = _parser().parse_args(arguments)
    if not parsed.traces:
        print_error(
            "the study needs the published spot traces.",
            f"Name their folder with --traces or the variable {FOLDER_VARIABLE}.",
        )
        return FAILED
    try:
        return _run(parsed)
    except UserError as error:
        print_error(error.problem, error.fix)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies.spot", description=__doc__)
    parser.add_argument(
        "--traces",
        default=os.environ.get(FOLDER_VARIABLE),
        metavar="FOLDER",
        help=f"folder of the spot traces and prices (default: the variable {FOLDER_VARIABLE})",
    )
    for option in JOB_SIZE:
        option(parser)
    parser.add_argument(
        "--policy", default="", metavar="P", help="comma-separated rules (default: all)"
    )
    parser.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="PART",
        help=f"{', '.join(PARTS)} or {ALL}; may be repeated (default: {PARTS[0]})",
    )
    parser.add_argument(
        "--limit",
        type=one_or_more,
        metavar="N",
        help="at most N starts of each series, windows or seeds",
    )
    parser.add_argument("--progress", action="store_true", help="always show a progress bar")
    OUTPUT(parser)
    return parser


def _run(parsed: argparse.Namespace) -> int:
    parts = PARTS if ALL in parsed.part else tuple(parsed.part) or PARTS[:1]
    request = SpotRequest(
        traces=Path(parsed.traces),
        size=JobSize(
            job_hours=parsed.job_hours,
            deadline_hours=parsed.deadline_hours,
            change_over_hours=parsed.change_over_hours,
        ),
        rules=tuple(filter(None, parsed.policy.split(","))) or tuple(POLICIES),
        parts=parts,
        limit=parsed.limit,
    )
    with progress_bar(shown=shows_progress(parsed)) as bar:
        outcome = run_spot_study(request, bar.draw)
    if parsed.output == JSON:
        print_json(spot_json(outcome))
    else:
        sys.stdout.write(published_text(outcome))
    return OK if outcome.complete else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

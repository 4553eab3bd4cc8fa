"""``bursar why``: why a job waits, when it will start, and what would start it now."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bursar.cli.arguments import add_connection, add_format, new_parser
from bursar.cli.connection import ask
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.safe_text import lines
from bursar.cli.terminal.table import print_one

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    parser = new_parser(
        commands,
        "why",
        (
            "print why a job waits, until when, and what would start it now",
            "Every reason is given in numbers: what is missing, who holds it, when it should be free, the "
            "job's queue position, and which smaller change would start it now at what cost.",
        ),
        ("bursar why j-abcdefghij", "bursar why 1234"),
    )
    parser.add_argument(
        "job", metavar="JOB", help="job id, or the number of a job of the local Slurm"
    )
    add_format(parser)
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    """Ask the server, or Slurm if the id is a number."""
    if parsed.job[:1].isdigit():
        from bursar.wiring.slurm.governed import explain_slurm_job, slurm_explanation_json

        slurm_job = explain_slurm_job(parsed.job)
        text = "\n".join(slurm_job.lines())
        print_one(parsed, slurm_explanation_json(slurm_job), lambda: print(lines(text)))
        return OK
    explanation = ask(parsed, lambda client: client.why(parsed.job))
    print_one(parsed, explanation, lambda: print(lines("\n".join(explanation["text"]))))
    return OK

"""``bursar why``: why a job does not run, when it will, and what would start it now."""

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
    """The command and its options."""
    parser = new_parser(
        commands,
        "why",
        (
            "say why a job waits, until when, and what would start it now",
            "Tells every reason, in numbers: what is missing, who has it, when it should be back, where "
            "the job stands, and which smaller change would start it now at what cost.",
        ),
        ("bursar why j-abcdefghij", "bursar why 1234"),
    )
    parser.add_argument(
        "job", metavar="JOB", help="the id of a job, or the number of one of the Slurm that is here"
    )
    add_format(parser)
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    """Ask and tell: our server, or Slurm about a number of its own."""
    if parsed.job[:1].isdigit():
        from bursar.wiring.slurm.governed import explain_slurm_job, slurm_explanation_json

        story = explain_slurm_job(parsed.job)
        told = "\n".join(story.lines())
        print_one(parsed, slurm_explanation_json(story), lambda: print(lines(told)))
        return OK
    found = ask(parsed, lambda client: client.why(parsed.job))
    print_one(parsed, found, lambda: print(lines("\n".join(found["text"]))))
    return OK

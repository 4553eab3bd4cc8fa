"""``bursar why-preempted``: what interrupted a job, what that cost, and what would help."""

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
        "why-preempted",
        (
            "say what interrupted a job, what that cost, and which change would help",
            "Tells from the job's own log whether capacity, price, priority, quota or budget interrupted "
            "it, how often it saved against how long it ran, how long it took to be back, and what would "
            "help, in numbers.",
        ),
        ("bursar why-preempted j-abcdefghij",),
    )
    parser.add_argument("job", metavar="JOB", help="the id of a job")
    add_format(parser)
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    """Ask and tell."""
    found = ask(parsed, lambda client: client.why_preempted(parsed.job))
    print_one(parsed, found, lambda: print(lines("\n".join(found["text"]))))
    return OK

"""``bursar why-preempted``: what interrupted a job, its cost, and what would help."""

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
        "why-preempted",
        (
            "print what interrupted a job, what that cost, and what would help",
            "The cause is capacity, price, priority, quota or budget. The report compares how often the job "
            "saved with how long it ran, and shows how long recovery took and what was lost.",
        ),
        ("bursar why-preempted j-abcdefghij",),
    )
    parser.add_argument("job", metavar="JOB", help="job id")
    add_format(parser)
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    report = ask(parsed, lambda client: client.why_preempted(parsed.job))
    print_one(parsed, report, lambda: print(lines("\n".join(report["text"]))))
    return OK

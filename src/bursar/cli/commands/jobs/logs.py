"""``bursar logs``: what a job wrote."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bursar.cli.arguments import add_connection, new_parser, one_or_more, whole
from bursar.cli.commands.jobs.wait import follow, left_alone, write_output
from bursar.cli.connection import connect, still_at
from bursar.cli.exit_codes import OK

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    parser = new_parser(
        commands,
        "logs",
        (
            "show what a job wrote, and with -f what it writes",
            "Shows the output of a job. Escape sequences that could change the terminal are written "
            "out; --raw leaves the output as it is. Ctrl-C stops following, not the job.",
        ),
        ("bursar logs -f j-abcdefghij", "bursar logs j-abcdefghij --stream stderr --tail 50"),
    )
    parser.add_argument("job", metavar="JOB", help="the id of a job")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job is over")
    parser.add_argument("--tail", type=one_or_more, metavar="N", help="only the last N lines")
    parser.add_argument(
        "--task", type=whole, metavar="N", help="only of this task (the first is 0)"
    )
    parser.add_argument("--stream", choices=("stdout", "stderr"), help="only one of the two")
    parser.add_argument(
        "--attempt", type=one_or_more, metavar="N", help="of this try (default: the last)"
    )
    parser.add_argument("--raw", action="store_true", help="escape sequences and all")
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    """Show, or follow."""
    chosen: dict[str, str | int] = {
        name: value
        for name in ("tail", "task", "stream", "attempt")
        if (value := getattr(parsed, name)) is not None
    }
    with connect(parsed) as client:
        if parsed.follow:
            try:
                follow(client, parsed.job, chosen, raw=parsed.raw)
            except KeyboardInterrupt:
                return left_alone(parsed.job)
            return OK
        with still_at("reading the output"):
            text = client.log_text(parsed.job, **chosen)
    from bursar.client.function_result import without_results

    write_output(text if parsed.raw else without_results(text), raw=parsed.raw)
    return OK

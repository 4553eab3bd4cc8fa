"""``bursar logs``: the output of a job."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bursar.cli.arguments import add_connection, new_parser, one_or_more, whole
from bursar.cli.commands.jobs.wait import detach, follow, write_output
from bursar.cli.connection import connect, show_activity
from bursar.cli.exit_codes import OK

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    parser = new_parser(
        commands,
        "logs",
        (
            "print the output of a job; follow it with -f",
            "Escape sequences that could affect the terminal are escaped, "
            "unless --raw is given. Ctrl-C stops following, not the job.",
        ),
        ("bursar logs -f j-abcdefghij", "bursar logs j-abcdefghij --stream stderr --tail 50"),
    )
    parser.add_argument("job", metavar="JOB", help="job id")
    parser.add_argument("-f", "--follow", action="store_true", help="continue until the job ends")
    parser.add_argument("--tail", type=one_or_more, metavar="N", help="only the last N lines")
    parser.add_argument("--task", type=whole, metavar="N", help="only this task (the first is 0)")
    parser.add_argument("--stream", choices=("stdout", "stderr"), help="only this stream")
    parser.add_argument(
        "--attempt", type=one_or_more, metavar="N", help="only this attempt (default: the last)"
    )
    parser.add_argument("--raw", action="store_true", help="print escape sequences unchanged")
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    filters: dict[str, str | int] = {
        name: value
        for name in ("tail", "task", "stream", "attempt")
        if (value := getattr(parsed, name)) is not None
    }
    with connect(parsed) as client:
        if parsed.follow:
            try:
                follow(client, parsed.job, filters, raw=parsed.raw)
            except KeyboardInterrupt:
                return detach(parsed.job)
            return OK
        with show_activity("reading the output"):
            text = client.log_text(parsed.job, **filters)
    from bursar.client.function_result import without_results

    write_output(text if parsed.raw else without_results(text), raw=parsed.raw)
    return OK

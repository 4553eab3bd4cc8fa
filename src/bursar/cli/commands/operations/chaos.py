"""``bursar chaos``: make what providers do happen now, to see that jobs survive it."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from bursar.cli.arguments import add_connection, add_format, new_parser
from bursar.cli.connection import ask
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import print_one

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers

UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def add_parser(commands: Subparsers) -> None:
    """The command and its verb."""
    parser = new_parser(
        commands,
        "chaos",
        ("interrupt a job as a spot provider would, to see that it survives", ""),
        ("bursar chaos interrupt j-abc --notice 30s", "bursar chaos interrupt j-abc --kill"),
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    interrupt = new_parser(
        verbs,
        "interrupt",
        (
            "take the virtual node of a running job away",
            "Announces that the job's node is taken away, as a spot provider does, and takes it away "
            "at the end of the notice; it is back after a while. The job is told to save its work and "
            "to leave, and goes on elsewhere or when the node is back. With --kill nothing is announced "
            "and everything on the node is killed at once. Works on clusters of the local engine, whose "
            "nodes are virtual.",
        ),
        (
            "bursar chaos interrupt j-abc --notice 30s",
            "bursar chaos interrupt j-abc --kill --away 5m",
        ),
    )
    interrupt.add_argument("job", metavar="JOB", help="the id of a running job")
    how = interrupt.add_mutually_exclusive_group()
    how.add_argument(
        "--notice",
        type=duration,
        default=30,
        metavar="TIME",
        help="how long before it is announced: 30s, 2m (default 30s)",
    )
    how.add_argument("--kill", action="store_true", help="do not announce it: kill -9, node gone")
    interrupt.add_argument(
        "--away",
        type=duration,
        default=60,
        metavar="TIME",
        help="how long the node is away: 60s, 5m (default 60s)",
    )
    add_format(interrupt)
    add_connection(interrupt)


def duration(text: str) -> int:
    """Seconds, of ``30``, ``30s``, ``2m`` or ``1h``."""
    found = re.fullmatch(r"(\d{1,6}) ?(s|m|min|h)?", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30s, 2m or 1h")
    return int(found[1]) * UNITS[found[2] or ""]


def run(parsed: argparse.Namespace) -> int:
    """Interrupt a job and say what will happen."""
    notice_seconds = 0 if parsed.kill else parsed.notice
    told = ask(
        parsed,
        lambda client: client.interrupt(
            parsed.job, notice_seconds=notice_seconds, absence_seconds=parsed.away
        ),
    )
    node = one_line(told["node"])

    def tell() -> None:
        if notice_seconds:
            print(f"{node} is taken away in {notice_seconds} s and is back {parsed.away} s later;")
            print(f"{one_line(parsed.job)} was told to save its work and leave.")
        else:
            print(f"{node} is gone with everything on it, and is back in {parsed.away} s.")
        print(f"'bursar status {one_line(parsed.job)}' says when it has recovered.")

    print_one(parsed, dict(told), tell)
    return OK

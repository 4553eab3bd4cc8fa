"""``bursar chaos``: interrupt a job as a spot provider would."""

from __future__ import annotations

import argparse
import re

from bursar.cli.arguments import (
    CONNECTION,
    FORMAT,
    argument,
    command,
    command_of_verbs,
    flag,
    one_of,
)
from bursar.cli.connection import ask
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import print_one

UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def duration(text: str) -> int:
    """Parse ``30``, ``30s``, ``2m`` or ``1h`` into seconds."""
    match = re.fullmatch(r"(\d{1,6}) ?(s|m|min|h)?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30s, 2m or 1h")
    return int(match[1]) * UNITS[match[2] or ""]


@command(
    "interrupt",
    argument("job", "JOB", "id of a running job"),
    one_of(
        argument(
            "--notice",
            "TIME",
            "notice before the node is removed: 30s, 2m (default 30s)",
            type=duration,
            default=30,
        ),
        flag("--kill", "no notice: kill everything on the node at once"),
    ),
    argument(
        "--away",
        "TIME",
        "how long the node is gone: 60s, 5m (default 60s)",
        type=duration,
        default=60,
    ),
    FORMAT,
    CONNECTION,
    examples=(
        "bursar chaos interrupt j-abc --notice 30s",
        "bursar chaos interrupt j-abc --kill --away 5m",
    ),
)
def interrupt(parsed: argparse.Namespace) -> int:
    """Remove the virtual node of a running job.

    The loss of the node is announced, as a spot provider does, and the node is removed at the end of the
    notice; it returns later. The job is asked to save its work and stop, and continues elsewhere or when the
    node is back. With --kill there is no notice and everything on the node is killed at once. Works on
    clusters of the local engine, whose nodes are virtual.
    """
    notice_seconds = 0 if parsed.kill else parsed.notice
    interruption = ask(
        parsed,
        lambda client: client.interrupt(
            parsed.job, notice_seconds=notice_seconds, absence_seconds=parsed.away
        ),
    )
    node = one_line(interruption["node"])

    def print_text() -> None:
        if notice_seconds:
            print(f"{node} is removed in {notice_seconds} s and returns {parsed.away} s later;")
            print(f"{one_line(parsed.job)} was asked to save its work and stop.")
        else:
            print(f"{node} was removed with everything on it and returns in {parsed.away} s.")
        print(f"'bursar status {one_line(parsed.job)}' shows when it has recovered.")

    print_one(parsed, dict(interruption), print_text)
    return OK


chaos = command_of_verbs(
    "chaos",
    "Interrupt a job as a spot provider would, to test its recovery.",
    interrupt,
    examples=("bursar chaos interrupt j-abc --notice 30s", "bursar chaos interrupt j-abc --kill"),
)

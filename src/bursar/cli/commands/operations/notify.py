"""``bursar notify``: test the notification channels."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import add_format, new_parser
from bursar.cli.exit_codes import FAILED, OK
from bursar.cli.terminal.table import Column, TableSpec, print_rows

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    notify = new_parser(
        commands,
        "notify",
        (
            "test the notification channels: Slack, webhooks, e-mail",
            "'bursar up --notify FILE' sends notifications about preemptions, recoveries, failures and "
            "budgets. This command sends a test message to each channel of the file, or to one.",
        ),
        ("bursar notify test notify.yaml", "bursar notify test notify.yaml --channel ops"),
    )
    verbs = notify.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    test = new_parser(
        verbs,
        "test",
        ("send a test message and print the result", ""),
        ("bursar notify test notify.yaml",),
    )
    test.add_argument("file", metavar="FILE", help="file with the channels")
    test.add_argument("--channel", metavar="NAME", help="only this channel")
    add_format(test)


def run(parsed: argparse.Namespace) -> int:
    """Send a test message to each channel and print the results."""
    from bursar.wiring.notifications import try_channels

    now_ms = time.time_ns() // 1_000_000
    rows = [
        {"channel": name, "delivered": not problem, "problem": problem}
        for name, problem in try_channels(Path(parsed.file), parsed.channel, now_ms)
    ]
    print_rows(parsed, RESULTS, rows)
    return OK if all(row["delivered"] for row in rows) else FAILED


RESULTS: Final = TableSpec(
    columns=(
        Column("CHANNEL", lambda row: row["channel"], whole=True),
        Column("DELIVERED", lambda row: "yes" if row["delivered"] else "no"),
        Column("PROBLEM", lambda row: row["problem"]),
    ),
    keys=("channel", "delivered", "problem"),
)

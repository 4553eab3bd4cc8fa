"""``bursar notify``: try the channels through which people are told."""

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
    """The command and its options."""
    notify = new_parser(
        commands,
        "notify",
        (
            "try the channels through which people are told: Slack, webhooks, e-mail",
            "'bursar up --notify FILE' tells people of preemptions, recoveries, failures and budgets. "
            "This sends a test message to each channel of the file, or to one.",
        ),
        ("bursar notify test notify.yaml", "bursar notify test notify.yaml --channel ops"),
    )
    verbs = notify.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    test = new_parser(
        verbs,
        "test",
        ("send a test message", "Sends a test message and says what became of it."),
        ("bursar notify test notify.yaml",),
    )
    test.add_argument("file", metavar="FILE", help="the file with the channels")
    test.add_argument("--channel", metavar="NAME", help="only this one")
    add_format(test)


def run(parsed: argparse.Namespace) -> int:
    """Send, and say what became of it."""
    from bursar.wiring.notifications import try_channels

    now_ms = time.time_ns() // 1_000_000
    rows = [
        {"channel": name, "told": not problem, "problem": problem}
        for name, problem in try_channels(Path(parsed.file), parsed.channel, now_ms)
    ]
    print_rows(parsed, TRIED, rows)
    return OK if all(row["told"] for row in rows) else FAILED


TRIED: Final = TableSpec(
    columns=(
        Column("CHANNEL", lambda row: row["channel"], whole=True),
        Column("TOLD", lambda row: "yes" if row["told"] else "no"),
        Column("PROBLEM", lambda row: row["problem"]),
    ),
    keys=("channel", "told", "problem"),
)

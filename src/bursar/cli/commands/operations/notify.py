"""``bursar notify``: test the notification channels."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final

from bursar.cli.arguments import FORMAT, argument, command, command_of_verbs
from bursar.cli.exit_codes import FAILED, OK
from bursar.cli.terminal.table import Column, TableSpec, print_rows


@command(
    "test",
    argument("file", "FILE", "file with the channels"),
    argument("--channel", "NAME", "only this channel"),
    FORMAT,
    examples=("bursar notify test notify.yaml",),
)
def test(parsed: argparse.Namespace) -> int:
    """Send a test message and print the result."""
    from bursar.wiring.notifications import try_channels

    now_ms = time.time_ns() // 1_000_000
    rows = [
        {"channel": name, "delivered": not problem, "problem": problem}
        for name, problem in try_channels(Path(parsed.file), parsed.channel, now_ms)
    ]
    print_rows(parsed, RESULTS, rows)
    return OK if all(row["delivered"] for row in rows) else FAILED


notify = command_of_verbs(
    "notify",
    """Test the notification channels: Slack, webhooks, e-mail.

    'bursar up --notify FILE' sends notifications about preemptions, recoveries, failures and budgets. This
    command sends a test message to each channel of the file, or to one.
    """,
    test,
    examples=("bursar notify test notify.yaml", "bursar notify test notify.yaml --channel ops"),
)

RESULTS: Final = TableSpec(
    columns=(
        Column("CHANNEL", lambda row: row["channel"], whole=True),
        Column("DELIVERED", lambda row: "yes" if row["delivered"] else "no"),
        Column("PROBLEM", lambda row: row["problem"]),
    ),
    keys=("channel", "delivered", "problem"),
)

"""``bursar rules``: what the house rules have to say about the fleet and its jobs as they are."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import add_list, new_parser
from bursar.cli.connection import ask
from bursar.cli.terminal.table import Column, Row, TableSpec, show_list
from bursar.model.units import write_usd

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    rules = new_parser(
        commands,
        "rules",
        (
            "list what the house rules find: what they forbid or would forbid, whose rule, what to do",
            "Rules are written in the fleet file under policies.governance. One in dry-run tells what it "
            "would forbid and forbids nothing. 'bursar fleet plan' and 'apply' change them.",
        ),
        ("bursar rules", "bursar rules --rule idle-nodes -o csv"),
    )
    rules.add_argument("--rule", metavar="RULE", help="only what this rule finds")
    add_list(rules, limit=500)


def run(parsed: argparse.Namespace) -> int:
    """Ask and show."""

    def rows() -> list[Row]:
        found: list[Row] = [*ask(parsed, lambda client: client.findings())]
        return [row for row in found if parsed.rule in (None, row["rule"])][: parsed.limit]

    return show_list(parsed, FINDINGS, rows)


FINDINGS: Final = TableSpec(
    columns=(
        Column("RULE", lambda row: row["rule"], whole=True),
        Column("MODE", lambda row: row["mode"]),
        Column("OWNER", lambda row: row["owner"], only_wide=True),
        Column("WHAT", lambda row: f"{row['subject']} {row['text']}"),
        Column("FIX", lambda row: row["fix"]),
        Column("$/H", lambda row: _rate(row), right=True, only_wide=True),
    ),
    keys=("rule", "mode", "owner", "subject", "text", "fix", "micro_usd_per_hour"),
    nothing="the house rules find nothing to say, or there are none.",
)


def _rate(row: Row) -> str:
    return write_usd(row["micro_usd_per_hour"]) if row["micro_usd_per_hour"] else "-"

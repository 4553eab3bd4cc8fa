"""``bursar rules``: findings of the governance rules about current nodes and jobs."""

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
    rules = new_parser(
        commands,
        "rules",
        (
            "list what governance rules forbid or would forbid, with owner and fix",
            "Rules are in the fleet file under policies.governance. A rule in dry-run reports what it "
            "would forbid and forbids nothing. Change rules with 'bursar fleet plan' and 'apply'.",
        ),
        ("bursar rules", "bursar rules --rule idle-nodes -o csv"),
    )
    rules.add_argument("--rule", metavar="RULE", help="only findings of this rule")
    add_list(rules, limit=500)


def run(parsed: argparse.Namespace) -> int:

    def rows() -> list[Row]:
        findings: list[Row] = [*ask(parsed, lambda client: client.findings())]
        return [row for row in findings if parsed.rule in (None, row["rule"])][: parsed.limit]

    return show_list(parsed, FINDINGS, rows)


FINDINGS: Final = TableSpec(
    columns=(
        Column("RULE", lambda row: row["rule"], whole=True),
        Column("MODE", lambda row: row["mode"]),
        Column("OWNER", lambda row: row["owner"], only_wide=True),
        Column("FINDING", lambda row: f"{row['subject']} {row['text']}"),
        Column("FIX", lambda row: row["fix"]),
        Column("$/H", lambda row: _rate(row), right=True, only_wide=True),
    ),
    keys=("rule", "mode", "owner", "subject", "text", "fix", "micro_usd_per_hour"),
    nothing="no findings, or no governance rules.",
)


def _rate(row: Row) -> str:
    return write_usd(row["micro_usd_per_hour"]) if row["micro_usd_per_hour"] else "-"

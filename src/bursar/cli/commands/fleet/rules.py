"""``bursar rules``: findings of the governance rules about current nodes and jobs."""

from __future__ import annotations

import argparse
from typing import Final

from bursar.cli.arguments import argument, command, listing
from bursar.cli.terminal.table import Column, Row, TableSpec, show_list
from bursar.model.units import write_usd


@command(
    "rules",
    argument("--rule", "RULE", "only findings of this rule"),
    *listing(500),
    examples=("bursar rules", "bursar rules --rule idle-nodes -o csv"),
)
def rules(parsed: argparse.Namespace) -> int:
    """List what governance rules forbid or would forbid, with owner and fix.

    Rules are in the fleet file under policies.governance. A rule in dry-run reports what it would forbid and
    forbids nothing. Change rules with 'bursar fleet plan' and 'apply'.
    """
    return show_list(
        parsed,
        FINDINGS,
        lambda client: [one for one in client.findings() if parsed.rule in (None, one["rule"])],
    )


FINDINGS: Final = TableSpec(
    columns=(
        Column("RULE", lambda row: row["rule"], whole=True),
        Column("MODE", lambda row: row["mode"]),
        Column("OWNER", lambda row: row["owner"], only_wide=True),
        Column("FINDING", lambda row: f"{row['subject']} {row['text']}"),
        Column("FIX", lambda row: row["fix"]),
        Column("$/H", lambda row: _rate(row), right=True, only_wide=True),
    ),
    keys="FindingRow",
    nothing="no findings, or no governance rules.",
)


def _rate(row: Row) -> str:
    return write_usd(row["micro_usd_per_hour"]) if row["micro_usd_per_hour"] else "-"

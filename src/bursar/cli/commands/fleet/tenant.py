"""``bursar tenant``: list tenants, or show one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import CONNECTION, FORMAT, argument, command, command_of_verbs, listing
from bursar.cli.commands.money.shares import FAIR, QUOTA
from bursar.cli.connection import ask
from bursar.cli.exit_codes import NOT_FOUND, OK
from bursar.cli.terminal.messages import print_error
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import Column, Row, TableSpec, print_one, print_rows, show_list

if TYPE_CHECKING:
    from bursar.client import Client


@command(
    "list",
    *listing(500),
    examples=("bursar tenant list -o csv",),
)
def list_tenants(parsed: argparse.Namespace) -> int:
    """List the tenants you may see."""
    return show_list(parsed, TENANTS, lambda client: client.tenants())


@command(
    "show",
    argument("tenant", "TENANT", "tenant name"),
    FORMAT,
    CONNECTION,
    examples=("bursar tenant show vision",),
)
def show(parsed: argparse.Namespace) -> int:
    """Show one tenant with its quota and share."""
    detail = ask(parsed, lambda client: _detail(client, parsed.tenant))
    if detail is None:
        print_error(
            f"tenant {parsed.tenant!r} does not exist or is not visible to you.",
            "'bursar tenant list' lists the tenants you may see.",
        )
        return NOT_FOUND
    row: Row = detail

    def print_text() -> None:
        kind = "queue" if row["is_queue"] else "tenant"
        under = f" of {one_line(row['parent'])}" if row["parent"] else ""
        print(f"{one_line(row['name'])}: {kind}{under}, weight {row['weight']:g}")
        for table, rows in ((QUOTA, row["quota"]), (FAIR, row["fair"])):
            if rows:
                print()
                print_rows(parsed, table, rows)

    print_one(parsed, row, print_text)
    return OK


tenant = command_of_verbs(
    "tenant",
    "List tenants, or show one with its quota and share.",
    *(list_tenants, show),
    examples=("bursar tenant list", "bursar tenant show vision"),
)


def _detail(client: Client, name: str) -> dict[str, object] | None:
    row = next((one for one in client.tenants() if one["name"] == name), None)
    if row is None:
        return None
    quota = [one for one in client.quota() if one["tenant"] == name]
    fair = [one for one in client.fair() if one["tenant"] == name]
    return {**row, "quota": quota, "fair": fair}


TENANTS: Final = TableSpec(
    columns=(
        Column("TENANT", lambda row: row["name"], whole=True),
        Column("PARENT", lambda row: row["parent"]),
        Column("WEIGHT", lambda row: f"{row['weight']:g}", right=True),
        Column("QUEUE", lambda row: "yes" if row["is_queue"] else "no"),
        Column("QUEUEING", lambda row: row["queueing"], only_wide=True),
    ),
    keys="TenantRow",
    nothing="no tenants; 'bursar fleet apply FILE' adds some.",
)

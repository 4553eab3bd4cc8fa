"""``bursar tenant``: list tenants, or show one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import add_connection, add_format, add_list, new_parser
from bursar.cli.commands.money.shares import FAIR, QUOTA
from bursar.cli.connection import ask
from bursar.cli.exit_codes import NOT_FOUND, OK
from bursar.cli.terminal.messages import print_error
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import Column, Row, TableSpec, print_one, print_rows, show_list

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.client import Client


def add_parser(commands: Subparsers) -> None:
    parser = new_parser(
        commands,
        "tenant",
        ("list tenants, or show one with its quota and share", ""),
        ("bursar tenant list", "bursar tenant show vision"),
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    listing = new_parser(
        verbs, "list", ("list the tenants you may see", ""), ("bursar tenant list -o csv",)
    )
    add_list(listing, limit=500)
    show = new_parser(
        verbs,
        "show",
        ("show one tenant with its quota and share", ""),
        ("bursar tenant show vision",),
    )
    show.add_argument("tenant", metavar="TENANT", help="tenant name")
    add_format(show)
    add_connection(show)


def run(parsed: argparse.Namespace) -> int:
    if parsed.verb == "list":
        return show_list(
            parsed,
            TENANTS,
            lambda: [*ask(parsed, lambda client: client.tenants())][: parsed.limit],
        )
    return _show(parsed)


def _show(parsed: argparse.Namespace) -> int:
    detail = ask(parsed, lambda client: _detail(client, parsed.tenant))
    if detail is None:
        print_error(
            f"tenant {parsed.tenant!r} does not exist or is not visible to you.",
            "'bursar tenant list' lists the tenants you may see.",
        )
        return NOT_FOUND
    tenant: Row = detail

    def print_text() -> None:
        kind = "queue" if tenant["is_queue"] else "tenant"
        under = f" of {one_line(tenant['parent'])}" if tenant["parent"] else ""
        print(f"{one_line(tenant['name'])}: {kind}{under}, weight {tenant['weight']:g}")
        for listing, rows in ((QUOTA, tenant["quota"]), (FAIR, tenant["fair"])):
            if rows:
                print()
                print_rows(parsed, listing, rows)

    print_one(parsed, tenant, print_text)
    return OK


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
    keys=("name", "parent", "weight", "is_queue", "queueing"),
    nothing="no tenants; 'bursar fleet apply FILE' adds some.",
)

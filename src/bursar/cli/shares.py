"""``bursar quota`` and ``bursar fair``: what tenants may hold, and who is served next."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from bursar.cli.listing import Column, Listing, Row, show_list
from bursar.cli.parsers import add_list, new_parser
from bursar.cli.session import ask
from bursar.model.reason import write_amount

if TYPE_CHECKING:
    from bursar.cli.parsers import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Both commands and their options."""
    quota = new_parser(
        commands,
        "quota",
        (
            "list what each tenant may hold, holds and has borrowed",
            "Nominal is a tenant's own; what others leave idle may be borrowed on top. Available is "
            "what could start now.",
        ),
        ("bursar quota", "bursar quota --tenant vision -o json"),
    )
    fair = new_parser(
        commands,
        "fair",
        (
            "list who has had how much of what they are promised, and who is served next",
            "Share is a tenant's part of what its siblings used lately; entitlement is the part its "
            "weight promises. Who is furthest below comes first.",
        ),
        ("bursar fair", "bursar fair --watch 5"),
    )
    for parser in (quota, fair):
        parser.add_argument("--tenant", metavar="TENANT", help="only this tenant")
        add_list(parser, limit=500)


def run_quota(parsed: argparse.Namespace) -> int:
    """Ask and show."""
    return show_list(
        parsed, QUOTA, lambda: _of(parsed, [*ask(parsed, lambda client: client.quota())])
    )


def run_fair(parsed: argparse.Namespace) -> int:
    """Ask and show."""
    return show_list(
        parsed, FAIR, lambda: _of(parsed, [*ask(parsed, lambda client: client.fair())])
    )


def _of(parsed: argparse.Namespace, rows: list[Row]) -> list[Row]:
    return [row for row in rows if parsed.tenant in (None, row["tenant"])][: parsed.limit]


def _amount(row: Row, key: str, without: str = "-") -> str:
    return without if row[key] is None else write_amount(row["resource"], row[key])


def _percent(permille: int) -> str:
    return f"{permille / 10:.1f} %"


QUOTA: Final = Listing(
    columns=(
        Column("TENANT", lambda row: row["tenant"], whole=True),
        Column("FLAVOR", lambda row: row["flavor"]),
        Column("RESOURCE", lambda row: row["resource"]),
        Column("NOMINAL", lambda row: _amount(row, "nominal"), right=True),
        Column("USED", lambda row: _amount(row, "used"), right=True),
        Column("BORROWED", lambda row: _amount(row, "borrowed"), right=True),
        Column("AVAILABLE", lambda row: _amount(row, "available", "no limit"), right=True),
        Column("LIMIT", lambda row: _amount(row, "limit", "no limit"), right=True, only_wide=True),
        Column("LIMITED BY", lambda row: row["limited_by"], only_wide=True),
    ),
    keys=(
        *("tenant", "flavor", "resource", "nominal", "used", "borrowed", "available", "limit"),
        "limited_by",
    ),
    nothing="no tenant has a quota: everyone may hold what is free.",
)
FAIR: Final = Listing(
    columns=(
        Column("TENANT", lambda row: row["tenant"], whole=True),
        Column("PARENT", lambda row: row["parent"], only_wide=True),
        Column("WEIGHT", lambda row: f"{row['weight']:g}", right=True),
        Column("USAGE", lambda row: f"{row['usage']:,.1f}", right=True, only_wide=True),
        Column("SHARE", lambda row: _percent(row["share_permille"]), right=True),
        Column("ENTITLEMENT", lambda row: _percent(row["entitlement_permille"]), right=True),
        Column("NEXT", lambda row: f"{row['rank']} of {row['siblings']}", right=True),
    ),
    keys=(
        *("tenant", "parent", "weight", "usage", "share_permille", "entitlement_permille"),
        *("rank", "siblings"),
    ),
    nothing="there are no tenants that share anything.",
)

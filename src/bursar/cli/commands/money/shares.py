"""``bursar quota``, ``bursar fair`` and ``bursar budget``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final

from bursar.cli.arguments import argument, command, listing
from bursar.cli.terminal.table import Column, Row, TableSpec, show_list
from bursar.model.calendar import write_time
from bursar.model.reason import write_amount
from bursar.model.units import write_usd

OPTIONS: Final = (argument("--tenant", "TENANT", "only this tenant"), *listing(500))


@command("quota", *OPTIONS, examples=("bursar quota", "bursar quota --tenant vision -o json"))
def quota(parsed: argparse.Namespace) -> int:
    """List quota, usage and borrowing of each tenant.

    Nominal is a tenant's own quota; idle quota of others may be borrowed on top. Available is what could
    start now.
    """
    return show_list(parsed, QUOTA, lambda client: _selected(parsed, client.quota()))


@command("fair", *OPTIONS, examples=("bursar fair", "bursar fair --watch 5"))
def fair(parsed: argparse.Namespace) -> int:
    """List share, entitlement and rank of each tenant.

    Share is a tenant's fraction of the recent usage of its siblings; entitlement is the fraction due to its
    weight. The tenant furthest below its entitlement is next.
    """
    return show_list(parsed, FAIR, lambda client: _selected(parsed, client.fair()))


@command("budget", *OPTIONS, examples=("bursar budget", "bursar budget --tenant research -o json"))
def budget(parsed: argparse.Namespace) -> int:
    """List what is spent, held and left of each budget, and when it is exhausted.

    Held is what open jobs may still cost: a hard budget admits a job only if that much is left. Level is the
    last step that was reached, with its action.
    """
    return show_list(parsed, BUDGET, lambda client: _selected(parsed, client.cost.budgets()))


def _selected(parsed: argparse.Namespace, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if parsed.tenant in (None, row["tenant"])]


def _amount(row: Row, key: str, without: str = "-") -> str:
    return without if row[key] is None else write_amount(row["resource"], row[key])


def _usd(row: Row, what: str) -> str:
    return write_usd(row[f"{what}_micro_usd"])


def _time(at_ms: int | None, without: str) -> str:
    return without if at_ms is None else write_time(at_ms).removesuffix(" UTC")


def _percent(permille: int) -> str:
    return f"{permille / 10:.1f} %"


QUOTA: Final = TableSpec(
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
    keys="QuotaRow",
    nothing="no tenant has a quota: every tenant may use all free capacity.",
)
BUDGET: Final = TableSpec(
    columns=(
        Column("TENANT", lambda row: row["tenant"], whole=True),
        Column("BUDGET", lambda row: f"{_usd(row, 'amount')} a {row['period']}", right=True),
        Column("KIND", lambda row: row["enforcement"], only_wide=True),
        Column("SPENT", lambda row: _usd(row, "spent"), right=True),
        Column("%", lambda row: str(row["percent"]), right=True),
        Column("HELD", lambda row: _usd(row, "held"), right=True),
        Column("LEFT", lambda row: _usd(row, "left"), right=True),
        Column("LEVEL", lambda row: f"{row['level']} % {row['action']}" if row["level"] else "-"),
        Column("$/H", lambda row: write_usd(row["micro_usd_per_hour"]), right=True),
        Column("EXHAUSTED", lambda row: _time(row["exhausted_ms"], "not in this period")),
        Column("ENDS", lambda row: _time(row["period_end_ms"], "-")),
    ),
    keys="BudgetRow",
    nothing="no tenant has a budget; budgets are set in the fleet file.",
)
FAIR: Final = TableSpec(
    columns=(
        Column("TENANT", lambda row: row["tenant"], whole=True),
        Column("PARENT", lambda row: row["parent"], only_wide=True),
        Column("WEIGHT", lambda row: f"{row['weight']:g}", right=True),
        Column("USAGE", lambda row: f"{row['usage']:,.1f}", right=True, only_wide=True),
        Column("SHARE", lambda row: _percent(row["share_permille"]), right=True),
        Column("ENTITLEMENT", lambda row: _percent(row["entitlement_permille"]), right=True),
        Column("NEXT", lambda row: f"{row['rank']} of {row['siblings']}", right=True),
    ),
    keys="FairRow",
    nothing="no tenants share the fleet.",
)

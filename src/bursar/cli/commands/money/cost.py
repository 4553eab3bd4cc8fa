"""``bursar cost``: reports, differences, forecasts, statements and exports of costs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from bursar.cli.arguments import (
    CONNECTION,
    FORMAT,
    argument,
    choice,
    command,
    command_of_verbs,
    flag,
    group,
    limit,
    listing,
    one_of,
    one_or_more,
)
from bursar.cli.commands.money import cost_tables as tables
from bursar.cli.connection import ask
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.messages import warn
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import TableSpec, print_one, print_plain, print_rows, show_list
from bursar.model.units import write_usd

FORMATS: Final = ("csv", "json", "parquet", "focus", "focus-parquet")
BASELINES: Final = ("on-demand", "on-demand-while-used", "no-sharing")


def _month(text: str) -> str:
    from datetime import date

    try:
        date.fromisoformat(f"{text}-01")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a month such as 2026-10") from None
    return text


def _micro_usd(text: str) -> int:
    from bursar.model.fleet.price import micro_usd_of

    try:
        amount = micro_usd_of(text.replace(",", "").lstrip("$"))
    except ValueError:
        amount = -1
    if amount < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of dollars")
    return amount


BY: Final = argument(
    "--by",
    "WHAT",
    "group by team, project, queue, user, gpu, market, pool, job, day or label:KEY; separate "
    "several with commas (default: team)",
    default="team",
)
DAYS: Final = group(
    "period (UTC); default: this month so far",
    argument("--from", "DAY", "first day, YYYY-MM-DD", dest="from_day"),
    argument("--to", "DAY", "day after the last day", dest="to_day"),
    one_of(
        argument("--month", "YYYY-MM", "a whole month", type=_month),
        argument("--days", "N", "the last N days, including today", type=one_or_more),
    ),
)


def days_of(parsed: argparse.Namespace) -> dict[str, str | None]:
    """The period as ``from_day`` and ``to_day``."""
    from datetime import UTC, date, datetime, timedelta

    if (parsed.month or parsed.days) and (parsed.from_day or parsed.to_day):
        raise wrong_usage(
            "the period is given twice: --month and --days exclude --from and --to.",
            fix="Keep one of them.",
        )
    if parsed.days:
        tomorrow = datetime.now(UTC).date() + timedelta(days=1)
        return {"from_day": f"{tomorrow - timedelta(days=parsed.days)}", "to_day": f"{tomorrow}"}
    if not parsed.month:
        return {"from_day": parsed.from_day, "to_day": parsed.to_day}
    first = date.fromisoformat(f"{parsed.month}-01")
    following = (first + timedelta(days=31)).replace(day=1)
    return {"from_day": f"{first}", "to_day": f"{following}"}


def wrong_usage(problem: str, fix: str) -> Exception:
    """An error about conflicting options."""
    from bursar.client.errors import Invalid

    return Invalid(problem, fix=fix, code="wrong-usage")


@command(
    "report",
    BY,
    DAYS,
    FORMAT,
    limit(100),
    CONNECTION,
    examples=(
        "bursar cost report",
        "bursar cost report --by user,gpu --days 7",
        "bursar cost report --by label:experiment --month 2026-10 -o csv",
    ),
)
def report(parsed: argparse.Namespace) -> int:
    """Print costs by team, user, GPU model and more.

    Usage is what jobs held; waste is the part lost to failures and preemption. Idle and other costs are shown
    to users who may see the whole fleet.
    """
    filters: dict[str, Any] = {**days_of(parsed), "limit": parsed.limit}
    tables.print_report(parsed, ask(parsed, lambda c: c.cost.report(parsed.by, **filters)))
    return OK


@command(
    "diff",
    BY,
    DAYS,
    argument("--before-from", "DAY", "first day of the earlier period"),
    argument("--before-to", "DAY", "day after the earlier period"),
    FORMAT,
    limit(100),
    CONNECTION,
    examples=(
        "bursar cost diff --days 7",
        "bursar cost diff --by user --month 2026-11 --before-from 2026-10-01",
    ),
)
def diff(parsed: argparse.Namespace) -> int:
    """Print how costs changed between two periods.

    By default the earlier period has the same number of days, just before the other.
    """
    filters: dict[str, Any] = {**days_of(parsed), "limit": parsed.limit}
    filters |= {"before_from": parsed.before_from, "before_to": parsed.before_to}
    tables.print_diff(parsed, ask(parsed, lambda c: c.cost.diff(parsed.by, **filters)))
    return OK


@command(
    "forecast",
    argument("--tenant", "TENANT", "only this tenant, even without a budget"),
    *listing(500),
    examples=("bursar cost forecast", "bursar cost forecast --tenant research -o wide"),
)
def forecast(parsed: argparse.Namespace) -> int:
    """Print when each budget is exhausted, and the cost at the end of its period.

    The last weeks are extrapolated. The band has a probability of 80 % if the coming days are similar;
    -o wide also shows which days the forecast is based on.
    """
    return show_list(parsed, tables.FORECAST, lambda client: client.cost.forecast(parsed.tenant))


@command(
    "statement",
    argument("--tenant", "TENANT", "only this tenant"),
    DAYS,
    choice(
        "--kind",
        ("showback", "chargeback"),
        "showback informs, chargeback is owed (default: showback)",
        default="showback",
    ),
    choice(
        "--idle",
        ("absorbed", "proportional", "quota-owner"),
        "who pays for idle capacity: the platform, the users of the pool, or the owners of the "
        "quota (default: absorbed)",
        default="absorbed",
    ),
    flag("--jobs", "one line for each job"),
    FORMAT,
    CONNECTION,
    examples=(
        "bursar cost statement --month 2026-10",
        "bursar cost statement --tenant research --kind chargeback --idle proportional",
    ),
)
def statement(parsed: argparse.Namespace) -> int:
    """Print the statement of each team, to the cent.

    The statements of a period sum to the cost of the fleet in that period.
    """
    filters: dict[str, Any] = {**days_of(parsed), "tenant": parsed.tenant, "kind": parsed.kind}
    filters |= {"idle": parsed.idle, "lines": "jobs" if parsed.jobs else None}
    statements = ask(parsed, lambda c: c.cost.statement(**filters))
    if parsed.output == "csv":
        listing = TableSpec(columns=(), keys=tables.STATEMENT_KEYS)
        print_rows(parsed, listing, tables.statement_rows(statements))
    elif parsed.output in ("json", "yaml"):
        print_plain(parsed.output, statements)
    else:
        tables.print_statements(parsed, statements)
    return OK


@command(
    "savings",
    choice("--baseline", BASELINES, "only this baseline"),
    argument(
        "--price",
        "POOL=USD",
        "on-demand price of a node of a pool per hour; repeatable (default: the price table, by "
        "the machine type of the pool)",
        action="append",
    ),
    DAYS,
    FORMAT,
    CONNECTION,
    examples=(
        "bursar cost savings --month 2026-10",
        "bursar cost savings --baseline on-demand --price a100=27.45",
    ),
)
def savings(parsed: argparse.Namespace) -> int:
    """Print the savings against a baseline.

    on-demand: the same node-hours at on-demand prices. on-demand-while-used: rented only while jobs ran.
    no-sharing: a whole GPU for every slice and share.
    """
    filters: dict[str, Any] = {
        **days_of(parsed),
        "baseline": parsed.baseline,
        "price": parsed.price,
    }
    shown = ask(parsed, lambda c: c.cost.savings(**filters))
    for warning in shown["warnings"]:
        warn(one_line(warning))
    if parsed.output in ("table", "wide"):
        print(tables.period(shown))
    print_rows(parsed, tables.SAVINGS, shown["items"])
    return OK


@command(
    "export",
    choice("--format", FORMATS, "file format (default: csv)", default="csv"),
    argument("--file", "FILE", "file to write (default: standard output)"),
    DAYS,
    CONNECTION,
    examples=(
        "bursar cost export --month 2026-10 --format focus --file october.csv",
        "bursar cost export --days 7 > week.csv",
    ),
)
def export(parsed: argparse.Namespace) -> int:
    """Export all costs of a period as CSV, JSON, Parquet or FOCUS.

    One row for each day, job and location; idle capacity only for users who may see the whole fleet. FOCUS is
    the FinOps Foundation's cost and usage specification, version 1.2.
    """
    from bursar.cli.terminal.output import expect_writable

    if parsed.file is None and parsed.format.endswith("parquet") and sys.stdout.isatty():
        raise wrong_usage(
            "Parquet cannot be printed to a terminal.",
            fix="Pass --file costs.parquet, or redirect the output.",
        )
    expect_writable(parsed.file)
    filters: dict[str, Any] = dict(days_of(parsed))
    body = ask(parsed, lambda c: c.cost.export(parsed.format, **filters))
    if parsed.file is not None:
        Path(parsed.file).write_bytes(body)
        return OK
    stream = getattr(sys.stdout, "buffer", None)
    if stream is not None:
        stream.write(body)
    else:
        sys.stdout.write(body.decode("utf-8", "replace"))
    return OK


@command(
    "bill",
    argument("--pool", "POOL", "the billed pool", required=True),
    argument("--from", "DAY", "first day of the bill", dest="from_day", required=True),
    argument("--to", "DAY", "day after the last day of the bill", dest="to_day", required=True),
    argument("--usd", "USD", "amount in dollars", required=True, type=_micro_usd),
    argument("--flavor", "FLAVOR", "flavor of the pool at that time (default: its current flavor)"),
    FORMAT,
    CONNECTION,
    examples=("bursar cost bill --pool p5-spot --from 2026-10-01 --to 2026-11-01 --usd 18342.17",),
)
def bill(parsed: argparse.Namespace) -> int:
    """Enter a provider's bill for a pool; the difference is posted as an adjustment.

    For past days. Metered costs do not change: the difference is posted separately and distributed over the
    statements. A later bill for the same days replaces an earlier one.
    """
    request: dict[str, Any] = {
        "pool": parsed.pool,
        "from_day": parsed.from_day,
        "to_day": parsed.to_day,
        "billed_micro_usd": parsed.usd,
    }
    if parsed.flavor:
        request["flavor"] = parsed.flavor
    posted = ask(parsed, lambda c: c.cost.bill(request))  # type: ignore[arg-type]

    def print_text() -> None:
        days = f"{posted['from_day']} to {posted['to_day']}"
        print(f"pool        {one_line(posted['pool'])} ({one_line(posted['flavor'])}), {days}")
        print(f"metered     {write_usd(posted['metered_micro_usd'])}")
        print(f"billed      {write_usd(posted['billed_micro_usd'])}")
        print(f"adjustment  {write_usd(posted['adjustment_micro_usd'])}")

    print_one(parsed, posted, print_text)
    return OK


cost = command_of_verbs(
    "cost",
    """Report costs, changes and when budgets are exhausted.

    All figures come from the ledger: what jobs used and wasted, what was idle, and what providers billed.
    Days are UTC; the last day is not included.
    """,
    *(report, diff, forecast, statement, savings, export, bill),
    examples=("bursar cost report --by team", "bursar cost forecast"),
)

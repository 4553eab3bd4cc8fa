"""``bursar cost``: reports, differences, forecasts, statements and exports of costs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bursar.cli.arguments import add_connection, add_format, add_list, new_parser, one_or_more
from bursar.cli.commands.money import cost_tables as tables
from bursar.cli.connection import ask
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.messages import warn
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import TableSpec, print_one, print_plain, print_rows, show_list
from bursar.model.units import write_usd

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers

FORMATS: Final = ("csv", "json", "parquet", "focus", "focus-parquet")
BASELINES: Final = ("on-demand", "on-demand-while-used", "no-sharing")
BY: Final = (
    "group by team, project, queue, user, gpu, market, pool, job, day or label:KEY; separate "
    "several with commas (default: team)"
)


def add_parser(commands: Subparsers) -> None:
    parser = new_parser(
        commands,
        "cost",
        (
            "report costs, changes and when budgets are exhausted",
            "All figures come from the ledger: what jobs used and wasted, what was idle, and what "
            "providers billed. Days are UTC; the last day is not included.",
        ),
        ("bursar cost report --by team", "bursar cost forecast"),
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    _add_report(verbs)
    _add_diff(verbs)
    _add_forecast(verbs)
    _add_statement(verbs)
    _add_savings(verbs)
    _add_export(verbs)
    _add_bill(verbs)


def _add_report(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "report",
        (
            "print costs by team, user, GPU model and more",
            "Usage is what jobs held; waste is the part lost to failures and preemption. Idle and other "
            "costs are shown to users who may see the whole fleet.",
        ),
        (
            "bursar cost report",
            "bursar cost report --by user,gpu --days 7",
            "bursar cost report --by label:experiment --month 2026-10 -o csv",
        ),
    )
    parser.add_argument("--by", default="team", metavar="WHAT", help=BY)
    _add_days(parser)
    add_list(parser, watch=False, limit=100)


def _add_diff(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "diff",
        (
            "print how costs changed between two periods",
            "By default the earlier period has the same number of days, just before the other.",
        ),
        (
            "bursar cost diff --days 7",
            "bursar cost diff --by user --month 2026-11 --before-from 2026-10-01",
        ),
    )
    parser.add_argument("--by", default="team", metavar="WHAT", help=BY)
    _add_days(parser)
    parser.add_argument("--before-from", metavar="DAY", help="first day of the earlier period")
    parser.add_argument("--before-to", metavar="DAY", help="day after the earlier period")
    add_list(parser, watch=False, limit=100)


def _add_forecast(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "forecast",
        (
            "print when each budget is exhausted, and the cost at the end of its period",
            "The last weeks are extrapolated. The band has a probability of 80 % if the coming days are "
            "similar; -o wide also shows which days the forecast is based on.",
        ),
        ("bursar cost forecast", "bursar cost forecast --tenant research -o wide"),
    )
    parser.add_argument(
        "--tenant", metavar="TENANT", help="only this tenant, even without a budget"
    )
    add_list(parser, limit=500)


def _add_statement(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "statement",
        (
            "print the statement of each team, to the cent",
            "The statements of a period sum to the cost of the fleet in that period.",
        ),
        (
            "bursar cost statement --month 2026-10",
            "bursar cost statement --tenant research --kind chargeback --idle proportional",
        ),
    )
    parser.add_argument("--tenant", metavar="TENANT", help="only this tenant")
    _add_days(parser)
    parser.add_argument(
        "--kind",
        choices=("showback", "chargeback"),
        default="showback",
        help="showback informs, chargeback is owed (default: showback)",
    )
    parser.add_argument(
        "--idle",
        choices=("absorbed", "proportional", "quota-owner"),
        default="absorbed",
        help="who pays for idle capacity: the platform, the users of the pool, or the owners of the "
        "quota (default: absorbed)",
    )
    parser.add_argument("--jobs", action="store_true", help="one line for each job")
    add_format(parser)
    add_connection(parser)


def _add_savings(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "savings",
        (
            "print the savings against a baseline",
            "on-demand: the same node-hours at on-demand prices. on-demand-while-used: rented only "
            "while jobs ran. no-sharing: a whole GPU for every slice and share.",
        ),
        (
            "bursar cost savings --month 2026-10",
            "bursar cost savings --baseline on-demand --price a100=27.45",
        ),
    )
    parser.add_argument("--baseline", choices=BASELINES, help="only this baseline")
    parser.add_argument(
        "--price",
        action="append",
        metavar="POOL=USD",
        help="on-demand price of a node of a pool per hour; repeatable (default: the price table, by "
        "the machine type of the pool)",
    )
    _add_days(parser)
    add_format(parser)
    add_connection(parser)


def _add_export(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "export",
        (
            "export all costs of a period as CSV, JSON, Parquet or FOCUS",
            "One row for each day, job and location; idle capacity only for users who may see the whole "
            "fleet. FOCUS is the FinOps Foundation's cost and usage specification, version 1.2.",
        ),
        (
            "bursar cost export --month 2026-10 --format focus --file october.csv",
            "bursar cost export --days 7 > week.csv",
        ),
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="csv", help="file format (default: csv)"
    )
    parser.add_argument("--file", metavar="FILE", help="file to write (default: standard output)")
    _add_days(parser)
    add_connection(parser)


def _add_bill(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "bill",
        (
            "enter a provider's bill for a pool; the difference is posted as an adjustment",
            "For past days. Metered costs do not change: the difference is posted separately and "
            "distributed over the statements. A later bill for the same days replaces an earlier one.",
        ),
        ("bursar cost bill --pool p5-spot --from 2026-10-01 --to 2026-11-01 --usd 18342.17",),
    )
    parser.add_argument("--pool", required=True, metavar="POOL", help="the billed pool")
    parser.add_argument(
        "--from", dest="from_day", required=True, metavar="DAY", help="first day of the bill"
    )
    parser.add_argument(
        "--to",
        dest="to_day",
        required=True,
        metavar="DAY",
        help="day after the last day of the bill",
    )
    parser.add_argument(
        "--usd", required=True, type=_micro_usd, metavar="USD", help="amount in dollars"
    )
    parser.add_argument(
        "--flavor",
        metavar="FLAVOR",
        help="flavor of the pool at that time (default: its current flavor)",
    )
    add_format(parser)
    add_connection(parser)


def _add_days(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("period (UTC); default: this month so far")
    group.add_argument("--from", dest="from_day", metavar="DAY", help="first day, YYYY-MM-DD")
    group.add_argument("--to", dest="to_day", metavar="DAY", help="day after the last day")
    short = group.add_mutually_exclusive_group()
    short.add_argument("--month", type=_month, metavar="YYYY-MM", help="a whole month")
    short.add_argument(
        "--days", type=one_or_more, metavar="N", help="the last N days, including today"
    )


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


# -- running -------------------------------------------------------------------------------------------


def run(parsed: argparse.Namespace) -> int:
    return {
        "report": _report,
        "diff": _diff,
        "forecast": _forecast,
        "statement": _statement,
        "savings": _savings,
        "export": _export,
        "bill": _bill,
    }[parsed.verb](parsed)


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


def _report(parsed: argparse.Namespace) -> int:
    filters: dict[str, Any] = {**days_of(parsed), "limit": parsed.limit}
    tables.print_report(parsed, ask(parsed, lambda c: c.cost.report(parsed.by, **filters)))
    return OK


def _diff(parsed: argparse.Namespace) -> int:
    filters: dict[str, Any] = {**days_of(parsed), "limit": parsed.limit}
    filters |= {"before_from": parsed.before_from, "before_to": parsed.before_to}
    tables.print_diff(parsed, ask(parsed, lambda c: c.cost.diff(parsed.by, **filters)))
    return OK


def _forecast(parsed: argparse.Namespace) -> int:
    return show_list(
        parsed,
        tables.FORECAST,
        lambda: ask(parsed, lambda c: c.cost.forecast(parsed.tenant))[: parsed.limit],
    )


def _statement(parsed: argparse.Namespace) -> int:
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


def _savings(parsed: argparse.Namespace) -> int:
    filters: dict[str, Any] = {
        **days_of(parsed),
        "baseline": parsed.baseline,
        "price": parsed.price,
    }
    savings = ask(parsed, lambda c: c.cost.savings(**filters))
    for warning in savings["warnings"]:
        warn(one_line(warning))
    if parsed.output in ("table", "wide"):
        print(tables.period(savings))
    print_rows(parsed, tables.SAVINGS, savings["items"])
    return OK


def _export(parsed: argparse.Namespace) -> int:
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


def _bill(parsed: argparse.Namespace) -> int:
    bill: dict[str, Any] = {
        "pool": parsed.pool,
        "from_day": parsed.from_day,
        "to_day": parsed.to_day,
        "billed_micro_usd": parsed.usd,
    }
    if parsed.flavor:
        bill["flavor"] = parsed.flavor
    posted = ask(parsed, lambda c: c.cost.bill(bill))  # type: ignore[arg-type]

    def print_text() -> None:
        days = f"{posted['from_day']} to {posted['to_day']}"
        print(f"pool        {one_line(posted['pool'])} ({one_line(posted['flavor'])}), {days}")
        print(f"metered     {write_usd(posted['metered_micro_usd'])}")
        print(f"billed      {write_usd(posted['billed_micro_usd'])}")
        print(f"adjustment  {write_usd(posted['adjustment_micro_usd'])}")

    print_one(parsed, posted, print_text)
    return OK

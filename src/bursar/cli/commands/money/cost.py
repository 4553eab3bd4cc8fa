"""``bursar cost``: what things cost, for whom, what changed, and when budgets are used up."""

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
    "team, project, queue, user, gpu, market, pool, job, day or label:KEY; several with commas "
    "(default: team)"
)


def add_parser(commands: Subparsers) -> None:
    """The command and its verbs."""
    parser = new_parser(
        commands,
        "cost",
        (
            "report what things cost, what changed, and when budgets are used up",
            "Everything is told from the same ledger: what jobs used and wasted, what was idle, and "
            "what providers billed. Days are UTC, and the last one is not included.",
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
            "say what some days cost, by team, user, GPU model and more",
            "Usage is what jobs held, waste what of it was lost by failures and preemption. Idle and "
            "other costs of the fleet are shown to those who see all of it.",
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
            "say what changed from one period to another",
            "Compares some days with as many just before them, or with days that are named.",
        ),
        (
            "bursar cost diff --days 7",
            "bursar cost diff --by user --month 2026-11 --before-from 2026-10-01",
        ),
    )
    parser.add_argument("--by", default="team", metavar="WHAT", help=BY)
    _add_days(parser)
    parser.add_argument("--before-from", metavar="DAY", help="the first day to compare with")
    parser.add_argument("--before-to", metavar="DAY", help="the day after the last one of these")
    add_list(parser, watch=False, limit=100)


def _add_forecast(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "forecast",
        (
            "say when each budget is used up, and what its period will have cost",
            "Goes on as the last weeks were. The band holds in four of five cases if days to come are "
            "like those; --output wide also says from which days that is known.",
        ),
        ("bursar cost forecast", "bursar cost forecast --tenant research -o wide"),
    )
    parser.add_argument("--tenant", metavar="TENANT", help="this one, also without a budget")
    add_list(parser, limit=500)


def _add_statement(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "statement",
        (
            "write what each team is shown, or owes, to the cent",
            "All statements of a period together are what the fleet cost in it.",
        ),
        (
            "bursar cost statement --month 2026-10",
            "bursar cost statement --tenant research --kind chargeback --idle proportional",
        ),
    )
    parser.add_argument("--tenant", metavar="TENANT", help="of this one alone")
    _add_days(parser)
    parser.add_argument(
        "--kind", choices=("showback", "chargeback"), default="showback", help="whether it is owed"
    )
    parser.add_argument(
        "--idle",
        choices=("absorbed", "proportional", "quota-owner"),
        default="absorbed",
        help="who bears what nobody used: the platform, those who used the pool, or those whose "
        "quota it was (default: absorbed)",
    )
    parser.add_argument("--jobs", action="store_true", help="one line for each job")
    add_format(parser)
    add_connection(parser)


def _add_savings(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "savings",
        (
            "say what was saved against a baseline with a name",
            "on-demand: the same node-hours at on-demand prices. on-demand-while-used: rented only for "
            "what jobs held. no-sharing: every slice and share a whole GPU.",
        ),
        (
            "bursar cost savings --month 2026-10",
            "bursar cost savings --baseline on-demand --price a100=27.45",
        ),
    )
    parser.add_argument("--baseline", choices=BASELINES, help="only this one")
    parser.add_argument(
        "--price",
        action="append",
        metavar="POOL=USD",
        help="what a node of a pool costs an hour on demand; may be repeated (default: the price "
        "table, by the machine that the pool names)",
    )
    _add_days(parser)
    add_format(parser)
    add_connection(parser)


def _add_export(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "export",
        (
            "write everything of some days to a file: CSV, JSON, Parquet or FOCUS",
            "One line for each day, job and place, and for those who see the whole fleet also for what "
            "nobody used. FOCUS is the FinOps Foundation's format for cost and usage, version 1.2.",
        ),
        (
            "bursar cost export --month 2026-10 --format focus --file october.csv",
            "bursar cost export --days 7 > week.csv",
        ),
    )
    parser.add_argument("--format", choices=FORMATS, default="csv", help="how (default: csv)")
    parser.add_argument("--file", metavar="FILE", help="where to (default: standard output)")
    _add_days(parser)
    add_connection(parser)


def _add_bill(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "bill",
        (
            "enter what a provider billed for a pool; the difference is booked as an adjustment",
            "For days that are over. What was metered stays as it is: the difference becomes an entry "
            "of its own, and statements share it. A later bill for the same days replaces an earlier one.",
        ),
        ("bursar cost bill --pool p5-spot --from 2026-10-01 --to 2026-11-01 --usd 18342.17",),
    )
    parser.add_argument("--pool", required=True, metavar="POOL", help="what was billed")
    parser.add_argument(
        "--from", dest="from_day", required=True, metavar="DAY", help="its first day"
    )
    parser.add_argument(
        "--to", dest="to_day", required=True, metavar="DAY", help="the day after its last"
    )
    parser.add_argument(
        "--usd", required=True, type=_micro_usd, metavar="USD", help="how much, in dollars"
    )
    parser.add_argument(
        "--flavor", metavar="FLAVOR", help="as what it was metered (default: what the pool is now)"
    )
    add_format(parser)
    add_connection(parser)


def _add_days(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("days (UTC); without any of these, this month so far")
    group.add_argument("--from", dest="from_day", metavar="DAY", help="the first, as YYYY-MM-DD")
    group.add_argument("--to", dest="to_day", metavar="DAY", help="the day after the last")
    short = group.add_mutually_exclusive_group()
    short.add_argument("--month", type=_month, metavar="YYYY-MM", help="a whole month")
    short.add_argument(
        "--days", type=one_or_more, metavar="N", help="the last N days, today among them"
    )


def _month(text: str) -> str:
    from datetime import date

    try:
        date.fromisoformat(f"{text}-01")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no month such as 2026-10") from None
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
    """One of the verbs."""
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
    """``from_day`` and ``to_day`` as the server wants them."""
    from datetime import UTC, date, datetime, timedelta

    if (parsed.month or parsed.days) and (parsed.from_day or parsed.to_day):
        raise wrong_usage(
            "days are given twice: --month and --days stand for --from and --to.",
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
    """Options that do not go together."""
    from bursar.client.errors import Invalid

    return Invalid(problem, fix=fix, code="wrong-usage")


def _report(parsed: argparse.Namespace) -> int:
    chosen: dict[str, Any] = {**days_of(parsed), "limit": parsed.limit}
    tables.print_report(parsed, ask(parsed, lambda c: c.cost.report(parsed.by, **chosen)))
    return OK


def _diff(parsed: argparse.Namespace) -> int:
    chosen: dict[str, Any] = {**days_of(parsed), "limit": parsed.limit}
    chosen |= {"before_from": parsed.before_from, "before_to": parsed.before_to}
    tables.print_diff(parsed, ask(parsed, lambda c: c.cost.diff(parsed.by, **chosen)))
    return OK


def _forecast(parsed: argparse.Namespace) -> int:
    return show_list(
        parsed,
        tables.FORECAST,
        lambda: ask(parsed, lambda c: c.cost.forecast(parsed.tenant))[: parsed.limit],
    )


def _statement(parsed: argparse.Namespace) -> int:
    chosen: dict[str, Any] = {**days_of(parsed), "tenant": parsed.tenant, "kind": parsed.kind}
    chosen |= {"idle": parsed.idle, "lines": "jobs" if parsed.jobs else None}
    told = ask(parsed, lambda c: c.cost.statement(**chosen))
    if parsed.output == "csv":
        listing = TableSpec(columns=(), keys=tables.STATEMENT_KEYS)
        print_rows(parsed, listing, tables.statement_rows(told))
    elif parsed.output in ("json", "yaml"):
        print_plain(parsed.output, told)
    else:
        tables.print_statements(parsed, told)
    return OK


def _savings(parsed: argparse.Namespace) -> int:
    chosen: dict[str, Any] = {**days_of(parsed), "baseline": parsed.baseline, "price": parsed.price}
    told = ask(parsed, lambda c: c.cost.savings(**chosen))
    for warning in told["warnings"]:
        warn(one_line(warning))
    if parsed.output in ("table", "wide"):
        print(tables.period(told))
    print_rows(parsed, tables.SAVINGS, told["items"])
    return OK


def _export(parsed: argparse.Namespace) -> int:
    from bursar.cli.terminal.output import expect_writable

    if parsed.file is None and parsed.format.endswith("parquet") and sys.stdout.isatty():
        raise wrong_usage(
            "Parquet is not for a terminal.",
            fix="Say where to: --file costs.parquet, or > costs.parquet.",
        )
    expect_writable(parsed.file)
    chosen: dict[str, Any] = dict(days_of(parsed))
    body = ask(parsed, lambda c: c.cost.export(parsed.format, **chosen))
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
    told = ask(parsed, lambda c: c.cost.bill(bill))  # type: ignore[arg-type]

    def tell() -> None:
        days = f"{told['from_day']} to {told['to_day']}"
        print(f"pool        {one_line(told['pool'])} ({one_line(told['flavor'])}), {days}")
        print(f"metered     {write_usd(told['metered_micro_usd'])}")
        print(f"billed      {write_usd(told['billed_micro_usd'])}")
        print(f"adjustment  {write_usd(told['adjustment_micro_usd'])}")

    print_one(parsed, told, tell)
    return OK

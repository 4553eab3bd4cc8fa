"""How reports, changes, forecasts and statements are shown to people."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import Column, Row, TableSpec, print_rows
from bursar.model.units import USD_MICRO, write_usd

if TYPE_CHECKING:
    from bursar.client import wire

TOTAL: Final = "total"
HEADINGS: Final = {"gpu": "GPU", "market": "OPTION", "day": "DAY (UTC)"}
OF_IDLE: Final = {
    "absorbed": "what nobody used is the platform's",
    "proportional": "what nobody used is shared by those who used the pool",
    "quota-owner": "what nobody used is borne by those whose quota it was",
}


def period(told: Any) -> str:
    """``2026-11-01 to 2026-11-17 (UTC, last day not included), so far``."""
    so_far = "" if told["is_over"] else ", so far"
    return f"{told['from_day']} to {told['to_day']} (UTC, last day not included){so_far}"


def dollars(row: Row, key: str) -> str:
    return write_usd(row[key]) if row.get(key) is not None else "-"


def money(heading: str, key: str) -> Column:
    """Amounts are never cut: half a number is another number."""
    return Column(heading, lambda row: dollars(row, key), right=True, whole=True)


def hours(row: Row, key: str = "gpu_hours") -> str:
    return f"{row[key]:,.2f}"


def flat(items: Sequence[Any], by: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with one key for each dimension in place of a list of them."""
    return [
        {**dict(zip(by, row["keys"], strict=True)), **{k: v for k, v in row.items() if k != "keys"}}
        for row in items
    ]


def _total(row: Any, by: Sequence[str]) -> dict[str, Any]:
    return {**row, **dict.fromkeys(by, ""), by[0]: TOTAL}


def _bold(row: Row, first: str) -> str:
    return "bold" if row.get(first) == TOTAL else ""


def _key_columns(by: Sequence[str]) -> list[Column]:
    def column(name: str) -> Column:
        return Column(
            HEADINGS.get(name, name.upper()),
            lambda row: row[name] or " ",
            whole=name == "job",
            tone=lambda row: _bold(row, by[0]),
        )

    return [column(name) for name in by]


# -- reports -------------------------------------------------------------------------------------------


def print_report(parsed: argparse.Namespace, told: wire.CostReportView) -> None:
    """The rows, and below them what all of them come to."""
    by = told["by"]
    rows = flat(told["items"], by)
    listing = _report_listing(told)
    if parsed.output in ("table", "wide") and rows:
        print(f"{period(told)}, by {', '.join(one_line(name) for name in by)}")
        total = _total(told["total"], by)
        print_rows(parsed, listing, [*rows, total])
        left_out = told["rows"] - len(rows)
        if left_out:
            print(f"{left_out:,} more rows are in the total; --limit shows more.")
    else:
        print_rows(parsed, listing, rows)


def _report_listing(told: wire.CostReportView) -> TableSpec:
    by, whole = told["by"], told["total"]["total_micro_usd"]

    def share(row: Row) -> str:
        return f"{row['total_micro_usd'] / whole:.1%}" if whole else "-"

    def other(row: Row) -> str:
        names = ("reserved_micro_usd", "foreign_micro_usd", "adjustment_micro_usd")
        return write_usd(sum(row[name] for name in names))

    everyone = [*told["items"], told["total"]]
    has_other = any(other(row) != write_usd(0) for row in everyone)
    fleet = [
        *([money("IDLE", "idle_micro_usd")] if "job" not in by else []),
        *([Column("OTHER", other, right=True, whole=True)] if has_other else []),
    ]
    jobs = [
        Column("NAME", lambda row: row["name"] or " "),
        Column("USER", lambda row: row["owner"] or " "),
    ]
    columns = [
        *_key_columns(by),
        *(jobs if "job" in by else []),
        *([Column("JOBS", lambda row: f"{row['jobs']:,}", right=True)] if "job" not in by else []),
        Column("GPU-HOURS", hours, right=True),
        Column("IDLE GPU-H", lambda row: hours(row, "idle_gpu_hours"), right=True, only_wide=True),
        money("USAGE", "usage_micro_usd"),
        money("WASTE", "waste_micro_usd"),
        *(fleet if told["sees_fleet"] else []),
        money("TOTAL", "total_micro_usd"),
        Column("SHARE", share, right=True),
    ]
    keys = (*by, *(key for key in told["total"] if key != "keys"))
    return TableSpec(
        columns=tuple(columns), keys=keys, nothing=f"nothing was used: {period(told)}."
    )


# -- changes -------------------------------------------------------------------------------------------


def print_diff(parsed: argparse.Namespace, told: wire.CostDiff) -> None:
    """What it was, what it is, and by how much it changed."""
    by = told["by"]
    rows = flat(told["items"], by)
    columns = (
        *_key_columns(by),
        money("BEFORE", "before_micro_usd"),
        money("AFTER", "after_micro_usd"),
        Column("CHANGE", _signed, right=True, whole=True, tone=_tone),
        Column("%", _percent, right=True),
        Column("GPU-H BEFORE", lambda row: hours(row, "before_gpu_hours"), right=True),
        Column("GPU-H AFTER", lambda row: hours(row, "after_gpu_hours"), right=True),
    )
    keys = (*by, *(key for key in told["total"] if key != "keys"))
    nothing = f"nothing was used in either period; the later is {period(told)}."
    listing = TableSpec(columns=columns, keys=keys, nothing=nothing)
    if parsed.output in ("table", "wide") and rows:
        print(f"before    {told['before_from_day']} to {told['before_to_day']}")
        print(f"after     {period(told)}")
        rows.append(_total(told["total"], by))
    print_rows(parsed, listing, rows)


def _signed(row: Row) -> str:
    change = row["change_micro_usd"]
    return f"+{write_usd(change)}" if change > 0 else write_usd(change)


def _percent(row: Row) -> str:
    permille = row["change_permille"]
    return "new" if permille is None else f"{permille / 10:+.1f} %"


def _tone(row: Row) -> str:
    return "red" if row["change_micro_usd"] > 0 else "green" if row["change_micro_usd"] < 0 else ""


# -- forecasts -----------------------------------------------------------------------------------------


def _day(at_ms: int | None) -> str:
    from datetime import UTC, datetime

    if at_ms is None:
        return "-"
    return datetime.fromtimestamp(at_ms / 1_000, tz=UTC).strftime("%Y-%m-%d")


def _used_up(row: Row) -> str:
    if row["amount_micro_usd"] is None:
        return "no budget"
    if row["left_micro_usd"] <= 0:
        return "used up"
    at_ms = row["exhausted_ms"]
    return "not within 10 years" if at_ms is None else _day(at_ms)


def _band(row: Row) -> str:
    if row["low_end_micro_usd"] is None:
        return "unknown yet"
    low, high = (round(row[key] / USD_MICRO) for key in ("low_end_micro_usd", "high_end_micro_usd"))
    return f"${low:,} to ${high:,}"


def _runs_out(row: Row) -> str:
    left = row["left_micro_usd"]
    if left is None:
        return ""
    return "red" if left <= 0 else "yellow" if _is_before_end(row) else ""


def _is_before_end(row: Row) -> bool:
    return row["exhausted_ms"] is not None and _day(row["exhausted_ms"]) < row["to_day"]


FORECAST: Final = TableSpec(
    columns=(
        Column("TENANT", lambda row: row["tenant"], whole=True),
        Column("PERIOD", lambda row: row["period"], only_wide=True),
        Column("ENDS", lambda row: row["to_day"]),
        money("BUDGET", "amount_micro_usd"),
        money("SPENT", "spent_micro_usd"),
        money("A DAY", "micro_usd_per_day"),
        money("BY THE END", "end_micro_usd"),
        Column("4 IN 5", _band, right=True, whole=True),
        Column("USED UP", _used_up, whole=True, tone=_runs_out),
        Column("EARLIEST", lambda row: _day(row["earliest_ms"]), only_wide=True),
        Column("LATEST", lambda row: _day(row["latest_ms"]), only_wide=True),
        Column("KIND", lambda row: row["enforcement"], only_wide=True),
        Column("BASIS", lambda row: row["basis"], only_wide=True),
    ),
    keys=(
        *("tenant", "period", "from_day", "to_day", "enforcement", "amount_micro_usd"),
        *("spent_micro_usd", "left_micro_usd", "micro_usd_per_day", "end_micro_usd"),
        *("low_end_micro_usd", "high_end_micro_usd", "exhausted_ms", "earliest_ms", "latest_ms"),
        *("basis", "text"),
    ),
    nothing="there is no tenant within your reach.",
)


# -- statements ----------------------------------------------------------------------------------------


def cents(amount: int) -> str:
    """``$1,234.56``: statements are exact to the cent."""
    sign = "-" if amount < 0 else ""
    return f"{sign}${abs(amount) // 100:,}.{abs(amount) % 100:02}"


def print_statements(parsed: argparse.Namespace, told: wire.CostStatements) -> None:
    """One block for each payer, and what all of them come to."""
    for number, one in enumerate(told["items"]):
        if number:
            print()
        print_statement(parsed, one)
    if len(told["items"]) > 1:
        print(f"\nall {len(told['items'])} statements together  {cents(told['cents'])}")


def print_statement(parsed: argparse.Namespace, one: wire.CostStatement) -> None:
    """Head, lines, total, and who bears what nobody used."""
    print(f"{one['style']} statement for {one_line(one['payer'])}")
    print(period(one))
    lines: list[Row] = [*one["lines"]]
    if not lines:
        print("nothing was used.")
        return
    with_jobs = any(line["job_id"] for line in lines)
    hours_all = sum(line["gpu_hours"] for line in lines)
    total = {
        **dict.fromkeys(("gpu_model", "market", "queue", "job_id"), ""),
        "kind": TOTAL,
        "gpu_hours": hours_all,
        "cents": one["cents"],
    }
    print_rows(parsed, _statement_listing(with_jobs=with_jobs), [*lines, total])
    for note in _notes(one):
        print(note)


def _notes(one: wire.CostStatement) -> Iterator[str]:
    if one["style"] == "chargeback":
        owed = one["owed_cents"]
        yield f"owed: {cents(owed)}" if owed else "nothing is owed: the platform pays itself"
    yield f"idle: {OF_IDLE[one['idle']]}"
    if any(line["kind"] == "adjustment" for line in one["lines"]):
        yield "adjustment: the part of a provider's bill beyond what was metered"


def _statement_listing(*, with_jobs: bool) -> TableSpec:
    def tone(row: Row) -> str:
        return "bold" if row["kind"] == TOTAL else ""

    columns = [
        Column("KIND", lambda row: row["kind"], tone=tone),
        Column("QUEUE", lambda row: row["queue"] or " "),
        *([Column("JOB", lambda row: row["job_id"] or " ", whole=True)] if with_jobs else []),
        Column("GPU", lambda row: row["gpu_model"] or " "),
        Column("OPTION", lambda row: row["market"] or " "),
        Column("GPU-HOURS", hours, right=True),
        Column("AMOUNT", lambda row: cents(row["cents"]), right=True, whole=True, tone=tone),
    ]
    return TableSpec(columns=tuple(columns), keys=())


STATEMENT_KEYS: Final = (
    *("payer", "style", "from_day", "to_day", "kind", "queue", "job_id", "gpu_model", "market"),
    *("gpu_hours", "micro_usd", "cents"),
)


def statement_rows(told: wire.CostStatements) -> list[Row]:
    """Every line of every statement with its head, for a spreadsheet."""
    heads = ("payer", "style", "from_day", "to_day")
    return [
        {**{key: one[key] for key in heads}, **line}  # type: ignore[literal-required]
        for one in told["items"]
        for line in one["lines"]
    ]


# -- savings -------------------------------------------------------------------------------------------

SAVINGS: Final = TableSpec(
    columns=(
        Column("BASELINE", lambda row: row["baseline"], whole=True),
        money("WOULD HAVE COST", "baseline_micro_usd"),
        money("COST", "cost_micro_usd"),
        money("SAVED", "saved_micro_usd"),
        Column("%", lambda row: f"{row['saved_permille'] / 10:.1f} %", right=True),
        Column("ABOUT", lambda row: row["about"], only_wide=True),
    ),
    keys=(
        *("baseline", "about", "baseline_micro_usd", "cost_micro_usd", "saved_micro_usd"),
        "saved_permille",
    ),
    nothing="there is nothing to compare.",
)

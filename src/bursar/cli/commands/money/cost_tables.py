"""Tables of cost reports, differences, forecasts and statements."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import Column, Row, TableSpec, print_rows
from bursar.model.units import USD_MICRO, counted, write_usd

if TYPE_CHECKING:
    from bursar.client import wire

TOTAL: Final = "total"
HEADINGS: Final = {"gpu": "GPU", "market": "OPTION", "day": "DAY (UTC)"}
IDLE_NOTES: Final = {
    "absorbed": "the platform pays for idle capacity",
    "proportional": "the users of a pool share its idle cost",
    "quota-owner": "the owners of the quota pay for idle capacity",
}


def period(report: Any) -> str:
    """``2026-11-01 to 2026-11-17 (UTC, last day not included), so far``."""
    so_far = "" if report["is_over"] else ", so far"
    return f"{report['from_day']} to {report['to_day']} (UTC, last day not included){so_far}"


def dollars(row: Row, key: str) -> str:
    return write_usd(row[key]) if row.get(key) is not None else "-"


def money(heading: str, key: str) -> Column:
    """A column of amounts, which are never truncated."""
    return Column(heading, lambda row: dollars(row, key), right=True, whole=True)


def hours(row: Row, key: str = "gpu_hours") -> str:
    return f"{row[key]:,.2f}"


def flat(items: Sequence[Any], by: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with one key for each dimension, not a list of dimensions."""
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


def print_report(parsed: argparse.Namespace, report: wire.CostReportView) -> None:
    """Print the rows and their total."""
    by = report["by"]
    rows = flat(report["items"], by)
    listing = _report_listing(report)
    if parsed.output in ("table", "wide") and rows:
        print(f"{period(report)}, by {', '.join(one_line(name) for name in by)}")
        total = _total(report["total"], by)
        print_rows(parsed, listing, [*rows, total])
        omitted = report["rows"] - len(rows)
        if omitted:
            print(f"the total includes {counted(omitted, 'more row')}; --limit shows more.")
    else:
        print_rows(parsed, listing, rows)


def _report_listing(report: wire.CostReportView) -> TableSpec:
    by, total_micro_usd = report["by"], report["total"]["total_micro_usd"]

    def share(row: Row) -> str:
        return f"{row['total_micro_usd'] / total_micro_usd:.1%}" if total_micro_usd else "-"

    def other(row: Row) -> str:
        names = ("reserved_micro_usd", "foreign_micro_usd", "adjustment_micro_usd")
        return write_usd(sum(row[name] for name in names))

    all_rows = [*report["items"], report["total"]]
    has_other = any(other(row) != write_usd(0) for row in all_rows)
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
        *(fleet if report["sees_fleet"] else []),
        money("TOTAL", "total_micro_usd"),
        Column("SHARE", share, right=True),
    ]
    keys = (*by, *(key for key in report["total"] if key != "keys"))
    return TableSpec(columns=tuple(columns), keys=keys, nothing=f"no usage: {period(report)}.")


# -- changes -------------------------------------------------------------------------------------------


def print_diff(parsed: argparse.Namespace, report: wire.CostDiff) -> None:
    """Print both periods and the change."""
    by = report["by"]
    rows = flat(report["items"], by)
    columns = (
        *_key_columns(by),
        money("BEFORE", "before_micro_usd"),
        money("AFTER", "after_micro_usd"),
        Column("CHANGE", _signed, right=True, whole=True, tone=_tone),
        Column("%", _percent, right=True),
        Column("GPU-H BEFORE", lambda row: hours(row, "before_gpu_hours"), right=True),
        Column("GPU-H AFTER", lambda row: hours(row, "after_gpu_hours"), right=True),
    )
    keys = (*by, *(key for key in report["total"] if key != "keys"))
    nothing = f"no usage in either period; the later is {period(report)}."
    listing = TableSpec(columns=columns, keys=keys, nothing=nothing)
    if parsed.output in ("table", "wide") and rows:
        print(f"before    {report['before_from_day']} to {report['before_to_day']}")
        print(f"after     {period(report)}")
        rows.append(_total(report["total"], by))
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


def _exhausted(row: Row) -> str:
    if row["amount_micro_usd"] is None:
        return "no budget"
    if row["left_micro_usd"] <= 0:
        return "exhausted"
    at_ms = row["exhausted_ms"]
    return "not within 10 years" if at_ms is None else _day(at_ms)


def _band(row: Row) -> str:
    if row["low_end_micro_usd"] is None:
        return "not yet known"
    low, high = (round(row[key] / USD_MICRO) for key in ("low_end_micro_usd", "high_end_micro_usd"))
    return f"${low:,} to ${high:,}"


def _exhausted_tone(row: Row) -> str:
    remaining_micro_usd = row["left_micro_usd"]
    if remaining_micro_usd is None:
        return ""
    return "red" if remaining_micro_usd <= 0 else "yellow" if _is_before_end(row) else ""


def _is_before_end(row: Row) -> bool:
    return row["exhausted_ms"] is not None and _day(row["exhausted_ms"]) < row["to_day"]


FORECAST: Final = TableSpec(
    columns=(
        Column("TENANT", lambda row: row["tenant"], whole=True),
        Column("PERIOD", lambda row: row["period"], only_wide=True),
        Column("ENDS", lambda row: row["to_day"]),
        money("BUDGET", "amount_micro_usd"),
        money("SPENT", "spent_micro_usd"),
        money("PER DAY", "micro_usd_per_day"),
        money("AT THE END", "end_micro_usd"),
        Column("80 % BAND", _band, right=True, whole=True),
        Column("EXHAUSTED", _exhausted, whole=True, tone=_exhausted_tone),
        Column("EARLIEST", lambda row: _day(row["earliest_ms"]), only_wide=True),
        Column("LATEST", lambda row: _day(row["latest_ms"]), only_wide=True),
        Column("KIND", lambda row: row["enforcement"], only_wide=True),
        Column("BASIS", lambda row: row["basis"], only_wide=True),
    ),
    keys="CostForecast",
    nothing="no tenant is visible to you.",
)


# -- statements ----------------------------------------------------------------------------------------


def cents(amount: int) -> str:
    """``$1,234.56``, exact to the cent."""
    sign = "-" if amount < 0 else ""
    return f"{sign}${abs(amount) // 100:,}.{abs(amount) % 100:02}"


def print_statements(parsed: argparse.Namespace, report: wire.CostStatements) -> None:
    """Print one block for each payer, and the total of all."""
    for number, one in enumerate(report["items"]):
        if number:
            print()
        print_statement(parsed, one)
    if len(report["items"]) > 1:
        print(f"\ntotal of {len(report['items'])} statements  {cents(report['cents'])}")


def print_statement(parsed: argparse.Namespace, one: wire.CostStatement) -> None:
    """Print header, lines, total, and who pays for idle capacity."""
    print(f"{one['style']} statement for {one_line(one['payer'])}")
    print(period(one))
    lines: list[Row] = [*one["lines"]]
    if not lines:
        print("no usage.")
        return
    with_jobs = any(line["job_id"] for line in lines)
    total_hours = sum(line["gpu_hours"] for line in lines)
    total = {
        **dict.fromkeys(("gpu_model", "market", "queue", "job_id"), ""),
        "kind": TOTAL,
        "gpu_hours": total_hours,
        "cents": one["cents"],
    }
    print_rows(parsed, _statement_listing(with_jobs=with_jobs), [*lines, total])
    for note in _notes(one):
        print(note)


def _notes(one: wire.CostStatement) -> Iterator[str]:
    if one["style"] == "chargeback":
        owed = one["owed_cents"]
        yield f"owed: {cents(owed)}" if owed else "owed: nothing, the platform is its own payer"
    yield f"idle: {IDLE_NOTES[one['idle']]}"
    if any(line["kind"] == "adjustment" for line in one["lines"]):
        yield "adjustment: the difference between a provider's bill and the metered cost"


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


def statement_rows(report: wire.CostStatements) -> list[Row]:
    """Every line of every statement with its header, for a spreadsheet."""
    header = ("payer", "style", "from_day", "to_day")
    return [
        {**{key: one[key] for key in header}, **line}  # type: ignore[literal-required]
        for one in report["items"]
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
    keys="CostSaving",
    nothing="nothing to compare.",
)

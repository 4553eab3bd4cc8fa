"""Writes line items as CSV, JSON and Parquet, and as FOCUS in CSV and Parquet.

A file is built in memory, on a thread: a month of a thousand GPUs is some tens of megabytes.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from importlib import import_module
from operator import itemgetter
from typing import Any, Final

from bursar.accounting.reports.focus import (
    COLUMNS,
    DECIMALS,
    ROW_FIELDS,
    FocusRow,
    Issuer,
    Value,
    focus_rows,
    split_focus_rows,
)
from bursar.accounting.reports.group_by import write_day
from bursar.accounting.reports.line_item import LineItem
from bursar.accounting.reports.report import gpu_hours
from bursar.api import wire
from bursar.model.errors import UserError
from bursar.model.units import GIB_MIB, HOUR_MS

CSV: Final = "text/csv"
PARQUET: Final = "application/vnd.apache.parquet"
KEYS: Final = tuple(wire.CostLine.__annotations__)
FORMULAS: Final = frozenset("=+-@\t\r")
"""A spreadsheet reads a text that begins with one of these as a formula."""
PLAIN: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.:/-]*")
"""A text that needs no quotes in a CSV."""
MAX_CACHED_QUOTES: Final = 8_192
NUMBERS: Final = frozenset({"gpu_hours", "cpu_hours", "memory_gib_hours"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFormat:
    """One export format."""

    media: str
    ending: str
    write: Callable[[Iterable[LineItem], Issuer], bytes]


def _cost_line(item: LineItem) -> wire.CostLine:
    """Written out for speed: an export has hundreds of thousands of lines."""
    return {
        "day": write_day(item.day_ms),
        "kind": item.kind.value,  # type: ignore[typeddict-item]
        "pool": item.pool,
        "gpu_model": item.gpu_model,
        "market": item.market,
        "team": item.team,
        "project": item.project,
        "queue": item.queue,
        "user": item.user,
        "job_id": item.job_id,
        "job_name": item.job_name,
        "labels": dict(item.labels),
        "micro_usd": item.micro_usd,
        "gpu_hours": gpu_hours(item.gpu_milli_ms),
        "cpu_hours": gpu_hours(item.cpu_milli_ms),
        "memory_gib_hours": round(item.memory_mib_ms / (GIB_MIB * HOUR_MS), 6),
    }


def write_json(items: Iterable[LineItem], _issuer: Issuer) -> bytes:
    """A list of objects."""
    return json.dumps([_cost_line(item) for item in items], separators=(",", ":")).encode()


def write_csv(items: Iterable[LineItem], _issuer: Issuer) -> bytes:
    """A header, then one line for each item."""
    rows = (dict(_cost_line(item)) for item in items)
    return _csv(KEYS, ([row[name] for name in KEYS] for row in rows))


def write_focus(items: Iterable[LineItem], issuer: Issuer) -> bytes:
    """FOCUS as CSV; missing values are empty.

    The fields that many rows share are formatted once, as a template with gaps for the rest: a month has
    hundreds of thousands of rows of 45 columns.
    """
    file = io.BytesIO()
    file.write(_csv(COLUMNS, ()))
    for template, own in split_focus_rows(items, issuer, _template):
        cost, quantity, unit, *texts = own
        fields = (cost, quantity or "", unit or "", *[_field(text) for text in texts])
        line = template % _IN_ORDER(fields)
        file.write(line.encode("utf-8", "backslashreplace"))
    return file.getvalue()


_IN_ORDER = itemgetter(*[ROW_FIELDS[name] for name in COLUMNS if name in ROW_FIELDS])


def _template(common: FocusRow) -> str:
    fields = [
        "%s" if name in ROW_FIELDS else _field(common[name]).replace("%", "%%") for name in COLUMNS
    ]
    return f"{','.join(fields)}\n"


def _field(value: Value) -> str:
    """One CSV field; the csv module writes texts that may need quotes."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if PLAIN.fullmatch(value) else _quoted(value)
    return _quoted(_cell(value))


@lru_cache(maxsize=MAX_CACHED_QUOTES)
def _quoted(text: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow((_cell(text), ""))
    return line.getvalue().removesuffix(",\n")


def _csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """Writes rows, whose fields are in the order of the names; None becomes empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    texts = [index for index, name in enumerate(names) if name not in DECIMALS]
    for row in rows:
        cells = list(row)
        for index in texts:
            value = cells[index]
            if value is not None and (type(value) is not str or value[:1] in FORMULAS):
                cells[index] = _cell(value)
        writer.writerow(cells)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Any) -> Any:
    """Puts a quote before a text that a spreadsheet would read as a formula."""
    if isinstance(value, str):
        return f"'{value}" if value[:1] in FORMULAS else value
    if isinstance(value, Mapping):
        return json.dumps(value, separators=(",", ":")) if value else ""
    return value


# -- Parquet -------------------------------------------------------------------------------------------


def write_parquet(items: Iterable[LineItem], _issuer: Issuer) -> bytes:
    """The columns of the CSV; labels are a JSON text, because their keys vary."""
    arrow = _pyarrow("pyarrow")
    kinds = dict.fromkeys(KEYS, arrow.string())
    kinds["micro_usd"] = arrow.int64()
    kinds |= dict.fromkeys(NUMBERS, arrow.float64())
    return _parquet(kinds, [dict(_cost_line(item)) for item in items])


def write_focus_parquet(items: Iterable[LineItem], issuer: Issuer) -> bytes:
    """FOCUS with decimals as decimals."""
    arrow = _pyarrow("pyarrow")
    kinds = {
        name: arrow.decimal128(28, 9) if name in DECIMALS else arrow.string() for name in COLUMNS
    }
    rows = [_with_decimals(row) for row in focus_rows(items, issuer)]
    return _parquet(kinds, rows)


def _with_decimals(row: FocusRow) -> dict[str, Any]:
    values: dict[str, Any] = dict(row)
    for name in DECIMALS:
        value = row[name]
        values[name] = Decimal(value) if isinstance(value, str) else None
    return values


def _parquet(kinds: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bytes:
    arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    columns = {
        name: arrow.array([_value(row[name]) for row in rows], type=kind)
        for name, kind in kinds.items()
    }
    sink = io.BytesIO()
    parquet.write_table(arrow.table(columns), sink)
    return sink.getvalue()


def _value(value: Any) -> Any:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, Mapping) else value


def _pyarrow(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            "Parquet needs the package pyarrow, which is not installed on the server.",
            fix="Install it on the server (pip install 'bursar[parquet]'), or use format=csv.",
            code="parquet-needs-pyarrow",
        ) from error


FORMATS: Final[Mapping[str, ExportFormat]] = {
    "csv": ExportFormat(media=CSV, ending="csv", write=write_csv),
    "json": ExportFormat(media=wire.JSON, ending="json", write=write_json),
    "parquet": ExportFormat(media=PARQUET, ending="parquet", write=write_parquet),
    "focus": ExportFormat(media=CSV, ending="focus.csv", write=write_focus),
    "focus-parquet": ExportFormat(media=PARQUET, ending="focus.parquet", write=write_focus_parquet),
}

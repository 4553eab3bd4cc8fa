"""Our own form in Parquet, for those who have ``pyarrow``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from bursar.model.errors import UserError
from bursar.simulate.readers.draft import TraceDraft
from bursar.simulate.readers.own_form import COLUMNS, fields_of, make_job
from bursar.simulate.readers.table import Fields, missing_columns
from bursar.simulate.readers.values import RowProblem
from bursar.simulate.trace import TraceJob

MAGIC = b"PAR1"
NAME = "parquet"
TITLE = "our own form in Parquet"
ROWS_AT_A_TIME = 50_000

_SECONDS = ("submit_s", "run_s", "expected_s", "deadline_s")
_WHOLE = ("gpus", "tasks", "gpu_milli", "cpu_milli", "memory_mib", "priority")


def read_parquet(path: Path, draft: TraceDraft) -> None:
    """Every row to the draft; a row's line is its number, from one."""
    file = _pyarrow("pyarrow.parquet").ParquetFile(path)
    names: list[str] = file.schema_arrow.names
    missing = COLUMNS.missing(names)
    if missing:
        raise missing_columns(str(path), missing, names)
    for row, fields in enumerate(_rows(file, names), start=1):
        try:
            draft.add(row, make_job(fields, row, draft))
        except RowProblem as problem:
            draft.reject(row, str(problem))


def write_parquet(jobs: Iterable[TraceJob], path: Path) -> None:
    """All columns, a group of rows at a time."""
    arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    schema = arrow.schema([(name, _type_of(name, arrow)) for name in COLUMNS.all])
    waiting = iter(jobs)
    with parquet.ParquetWriter(path, schema) as writer:
        while group := [fields_of(job) for job in islice(waiting, ROWS_AT_A_TIME)]:
            columns = [
                [_value(name, text) for text in texts]
                for name, texts in zip(COLUMNS.all, zip(*group, strict=True), strict=True)
            ]
            writer.write_table(arrow.table(columns, schema=schema))


def _rows(file: Any, names: list[str]) -> Iterator[Fields]:
    wanted = [name for name in COLUMNS.all if name in names]
    for batch in file.iter_batches(batch_size=ROWS_AT_A_TIME, columns=wanted):
        there = batch.to_pydict()
        blank = [None] * batch.num_rows
        columns = (there.get(name, blank) for name in COLUMNS.all)
        for values in zip(*columns, strict=True):
            yield tuple("" if value is None else str(value) for value in values)


def _value(name: str, text: str) -> str | int | float | None:
    if not text:
        return None
    if name in _SECONDS:
        return float(text)
    return int(text) if name in _WHOLE else text


def _type_of(name: str, arrow: Any) -> Any:
    if name in _SECONDS:
        return arrow.float64()
    return arrow.int64() if name in _WHOLE else arrow.string()


def _pyarrow(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UserError(
            "Parquet needs the package pyarrow, which is not installed.",
            fix="Install it (pip install pyarrow), or use the CSV form.",
            code="parquet-needs-pyarrow",
        ) from None

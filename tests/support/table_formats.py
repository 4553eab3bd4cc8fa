"""Checks that every table format of traces must pass, ours and those of the studies."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.model.errors import UserError
from bursar.simulate.traces import read_trace
from bursar.simulate.traces.formats import format_named
from bursar.simulate.traces.table import TableFormat
from bursar.simulate.workload.trace import Trace, TraceJob

GoodRow = tuple[str, str, TraceJob]
"""A header, a row, and the job that the row describes."""


def read(folder: Path, text: str, format: str | None = None, *, gpus_only: bool = False) -> Trace:
    """The trace in a file with this text."""
    file = folder / "trace.txt"
    file.write_text(text, encoding="utf-8")
    return read_trace(file, format, gpus_only=gpus_only)


def check_good_row(folder: Path, name: str, good: GoodRow) -> None:
    """The row becomes the job, also if the format is not named."""
    header, row, job = good
    text = f"{header}\n{row}\n"
    by_itself = read(folder, text)
    assert by_itself.jobs == (job,)
    assert by_itself.bad_rows == ()
    assert read(folder, text, name) == by_itself


def check_bad_row(folder: Path, name: str, good: GoodRow, row: str, problem: str) -> None:
    """The bad row is reported with its line, and the good one is read."""
    header, good_row, job = good
    trace = read(folder, f"{header}\n{good_row}\n\n{row}\n", name)
    assert [one.run_ms for one in trace] == [job.run_ms]
    (bad,) = trace.bad_rows
    assert problem in bad.problem
    assert (bad.file, bad.line) == (str(folder / "trace.txt"), 4)
    assert str(bad).startswith(f"{folder / 'trace.txt'}:4: ")


def check_missing_column(folder: Path, name: str, good: GoodRow) -> None:
    """A missing column is named, with the misspelt one."""
    header, row, _ = good
    table = format_named(name)
    assert isinstance(table, TableFormat)
    column = table.columns.required[0]
    with pytest.raises(UserError) as refused:
        read(folder, f"{header.replace(column, column + 'x')}\n{row}\n", name)
    assert refused.value.code == "trace-columns-missing"
    assert f"column {column} missing" in refused.value.problem
    assert str(folder / "trace.txt") in refused.value.problem
    assert f"Did you write '{column}x' for '{column}'?" in refused.value.fix


def check_without_rows(folder: Path, name: str, good: GoodRow) -> None:
    """An empty file is rejected, and one with a header alone is an empty trace."""
    with pytest.raises(UserError, match="the file is empty"):
        read(folder, "", name)
    assert read(folder, good[0] + "\n").jobs == ()

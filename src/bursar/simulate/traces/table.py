"""Traces that are tables: one line of column names, then one job a line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from bursar.model.errors import UserError
from bursar.model.suggestion import close_names
from bursar.simulate.traces.fields import RowProblem
from bursar.simulate.traces.input_files import TraceText
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

Fields = tuple[str, ...]
MakeJob = Callable[[Fields, int, TraceBuilder], TraceJob | None]
"""The job of a row, from its fields in the order of ``Columns.all``, its line and the draft. ``None``
if the row is no job of its own and the draft was told so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What a table must have, what it may have, and groups of which one column is enough."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """In the order in which a row's fields are handed over."""
        return self.required + self.optional

    def missing(self, header: Sequence[str]) -> tuple[str, ...]:
        """What a header lacks, each group as ``a or b``."""
        present = set(header)
        groups = (" or ".join(group) for group in self.one_of if present.isdisjoint(group))
        return (*(name for name in self.required if name not in present), *groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """A format that is a table: its columns, and how one row becomes a job."""

    name: str
    title: str
    columns: Columns
    make_job: MakeJob
    delimiter: str = ","
    remarks: tuple[str, ...] = ()

    def recognises(self, text: TraceText) -> bool:
        """Whether a file's first line has every column we need."""
        return not self.columns.missing(header_of(text, self.delimiter))

    def read(self, text: TraceText, draft: TraceBuilder) -> None:
        """Every row to the draft, as a job or as a bad row."""
        for remark in self.remarks:
            draft.remark(remark)
        make_job = self.make_job
        for line, fields in table_rows(text, draft, self.columns, self.delimiter):
            try:
                job = make_job(fields, line, draft)
            except RowProblem as problem:
                draft.reject(line, str(problem))
            else:
                if job is not None:
                    draft.add(line, job)


def header_of(text: TraceText, delimiter: str = ",") -> list[str]:
    """The column names, which stand on the first line that is no comment."""
    for line in text.head:
        if not _skipped(line):
            return _names(line, delimiter)
    return []


def table_rows(
    text: TraceText, draft: TraceBuilder, columns: Columns, delimiter: str = ","
) -> Iterator[tuple[int, Fields]]:
    """Each row's line and its fields, in the order of the columns; absent columns are empty."""
    before, header = _take_header(text.lines, delimiter)
    missing = columns.missing(header)
    if missing:
        raise missing_columns(text.name, missing, header)
    width = len(header)
    places = {name: place for place, name in reversed(list(enumerate(header)))}
    # Every row gets an empty field at its end, which stands for the columns that are not there.
    pick: Callable[[list[str]], Fields] = itemgetter(
        *(places.get(name, width) for name in columns.all)
    )
    reader = csv.reader(text.lines, delimiter=delimiter, quoting=_quoting(delimiter))
    while True:
        try:
            for row in reader:
                if len(row) == width:
                    row.append("")
                    yield before + reader.line_num, pick(row)
                elif row:
                    problem = f"has {len(row)} fields; the header has {width}"
                    draft.reject(before + reader.line_num, problem)
        except csv.Error as damage:
            draft.reject(before + reader.line_num, f"cannot be read as a row ({damage})")
        else:
            return


def missing_columns(file: str, missing: Sequence[str], found: Sequence[str]) -> UserError:
    """Names what is not there, what is, and which of those was probably meant."""
    if not found:
        return UserError(
            f"{file}: the file is empty: it has no line of column names.",
            fix=f"Begin it with a line that names at least {', '.join(missing)}.",
            code="trace-columns-missing",
        )
    hints = []
    for name in missing:
        close = close_names(name.lower(), [one.lower() for one in found], cutoff=0.7)
        hints += [f"{one!r} for {name!r}" for one in found if close and one.lower() == close[0]]
    plural = "columns" if len(missing) > 1 else "column"
    printable = ", ".join(ascii(name)[1:-1] for name in found)
    return UserError(
        f"{file}: {plural} {', '.join(missing)} missing; found {printable}.",
        fix=f"Did you write {', '.join(hints)}?" if hints else f"Add the {plural}.",
        code="trace-columns-missing",
    )


def _quoting(delimiter: str) -> Literal[0, 3]:
    """Only the comma's tables quote; in the others a quotation mark is a letter like any other."""
    return csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE


def _take_header(lines: Iterator[str], delimiter: str) -> tuple[int, list[str]]:
    """How many lines were taken, and the names on the last of them."""
    for taken, line in enumerate(lines, start=1):
        if not _skipped(line):
            return taken, _names(line, delimiter)
    return 0, []


def _names(line: str, delimiter: str) -> list[str]:
    reader = csv.reader([line], delimiter=delimiter, quoting=_quoting(delimiter))
    names = next(reader, [])
    return [name.strip() for name in names]


def _skipped(line: str) -> bool:
    return line.startswith("#") or not line.strip()

"""Reads traces that are tables: a header, then one job per line."""

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
"""Makes the job of a row from its fields in the order of ``Columns.all``, its line and the builder.
Returns ``None`` if it counted the row as skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Required columns, optional columns, and groups of which one column is enough."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """All columns, in the order of a row's fields."""
        return self.required + self.optional

    def missing(self, header: Sequence[str]) -> tuple[str, ...]:
        """Returns the columns that a header lacks, each group as ``a or b``."""
        present = set(header)
        groups = (" or ".join(group) for group in self.one_of if present.isdisjoint(group))
        return (*(name for name in self.required if name not in present), *groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """A table format: its columns, and the function that makes a job from a row."""

    name: str
    title: str
    columns: Columns
    make_job: MakeJob
    delimiter: str = ","
    notes: tuple[str, ...] = ()

    def recognises(self, text: TraceText) -> bool:
        """Whether the header has every required column."""
        return not self.columns.missing(header_of(text, self.delimiter))

    def read(self, text: TraceText, builder: TraceBuilder) -> None:
        """Adds every row to the builder, as a job or as a bad row."""
        for note in self.notes:
            builder.add_note(note)
        make_job = self.make_job
        for line, fields in table_rows(text, builder, self.columns, self.delimiter):
            try:
                job = make_job(fields, line, builder)
            except RowProblem as problem:
                builder.reject(line, str(problem))
            else:
                if job is not None:
                    builder.add(line, job)


def header_of(text: TraceText, delimiter: str = ",") -> list[str]:
    """Returns the column names, which are on the first line that is not a comment."""
    for line in text.head:
        if not _is_comment_or_blank(line):
            return _names(line, delimiter)
    return []


def table_rows(
    text: TraceText, builder: TraceBuilder, columns: Columns, delimiter: str = ","
) -> Iterator[tuple[int, Fields]]:
    """Yields the line and the fields of each row, in the order of the columns; absent ones are empty."""
    header_line, header = _read_header(text.lines, delimiter)
    missing = columns.missing(header)
    if missing:
        raise missing_columns(text.name, missing, header)
    width = len(header)
    positions = {name: position for position, name in reversed(list(enumerate(header)))}
    # Every row gets an empty field at its end, for the absent columns.
    pick: Callable[[list[str]], Fields] = itemgetter(
        *(positions.get(name, width) for name in columns.all)
    )
    reader = csv.reader(text.lines, delimiter=delimiter, quoting=_quoting(delimiter))
    while True:
        try:
            for row in reader:
                if len(row) == width:
                    row.append("")
                    yield header_line + reader.line_num, pick(row)
                elif row:
                    problem = f"has {len(row)} fields; the header has {width}"
                    builder.reject(header_line + reader.line_num, problem)
        except csv.Error as damage:
            builder.reject(header_line + reader.line_num, f"cannot be read as a row ({damage})")
        else:
            return


def missing_columns(file: str, missing: Sequence[str], header: Sequence[str]) -> UserError:
    """Returns the error that names the missing columns, those present, and likely typing errors."""
    if not header:
        return UserError(
            f"{file}: the file is empty: it has no header.",
            fix=f"Begin it with a header that has at least {', '.join(missing)}.",
            code="trace-columns-missing",
        )
    hints = []
    for name in missing:
        close = close_names(name.lower(), [one.lower() for one in header], cutoff=0.7)
        hints += [f"{one!r} for {name!r}" for one in header if close and one.lower() == close[0]]
    plural = "columns" if len(missing) > 1 else "column"
    printable = ", ".join(ascii(name)[1:-1] for name in header)
    return UserError(
        f"{file}: {plural} {', '.join(missing)} missing; found {printable}.",
        fix=f"Did you write {', '.join(hints)}?" if hints else f"Add the {plural}.",
        code="trace-columns-missing",
    )


def _quoting(delimiter: str) -> Literal[0, 3]:
    """Only comma-separated tables quote; elsewhere a quotation mark is an ordinary character."""
    return csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE


def _read_header(lines: Iterator[str], delimiter: str) -> tuple[int, list[str]]:
    """Returns the line number of the header and the column names."""
    for number, line in enumerate(lines, start=1):
        if not _is_comment_or_blank(line):
            return number, _names(line, delimiter)
    return 0, []


def _names(line: str, delimiter: str) -> list[str]:
    reader = csv.reader([line], delimiter=delimiter, quoting=_quoting(delimiter))
    names = next(reader, [])
    return [name.strip() for name in names]


def _is_comment_or_blank(line: str) -> bool:
    return line.startswith("#") or not line.strip()

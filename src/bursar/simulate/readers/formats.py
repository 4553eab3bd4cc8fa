"""Every format by its name, and which one a file is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from bursar.model.errors import UserError
from bursar.simulate.readers import (
    acme,
    bench,
    chronus,
    gavel,
    helios,
    history,
    hydra,
    kueue,
    muri,
    openb,
    own_form,
    pai,
    pai_tasks,
    parquet,
    philly,
    pollux,
    sacct,
    swf,
)
from bursar.simulate.readers.draft import TraceDraft
from bursar.simulate.readers.source import TraceText
from bursar.simulate.readers.table import TableFormat, header_of, missing_columns


class Format(Protocol):
    """A way to write a workload down."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def recognises(self, text: TraceText) -> bool: ...

    def read(self, text: TraceText, draft: TraceDraft) -> None: ...


@dataclass(frozen=True, slots=True)
class LineFormat:
    """A format that is no table: its lines mean what its module says."""

    name: str
    title: str
    recognise: Callable[[TraceText], bool]
    read_lines: Callable[[TraceText, TraceDraft], None]

    def recognises(self, text: TraceText) -> bool:
        """Whether a file's first lines look like it."""
        return self.recognise(text)

    def read(self, text: TraceText, draft: TraceDraft) -> None:
        """Every line to the draft."""
        self.read_lines(text, draft)


# The first that recognises a file wins, so the more particular of two stand before the other.
_TABLES: tuple[TableFormat, ...] = (
    own_form.FORMAT,
    bench.FORMAT,
    philly.FORMAT,
    helios.FORMAT,
    acme.HELIOS_LOG,
    acme.FORMAT,
    openb.FORMAT,
    chronus.FORMAT,
    muri.FORMAT,
    hydra.FORMAT,
    hydra.ON_V100,
    hydra.ON_2080TI,
    pollux.FORMAT,
    pai.FORMAT,
    sacct.FORMAT,
)
_LINES: tuple[LineFormat, ...] = (
    LineFormat(pai_tasks.NAME, pai_tasks.TITLE, pai_tasks.recognises, pai_tasks.read),
    LineFormat(history.NAME, history.TITLE, history.recognises, history.read),
    LineFormat(kueue.NAME, kueue.TITLE, kueue.recognises, kueue.read),
    LineFormat(gavel.NAME, gavel.TITLE, gavel.recognises, gavel.read),
    LineFormat(swf.NAME, swf.TITLE, swf.recognises, swf.read),
    LineFormat(swf.CPU_NAME, swf.CPU_TITLE, swf.recognises, swf.read_as_cpu),
)

_ALL: tuple[Format, ...] = (*_TABLES, *_LINES)

FORMATS: Mapping[str, Format] = {one.name: one for one in _ALL}

FORMAT_TITLES: Mapping[str, str] = {
    **{name: one.title for name, one in FORMATS.items()},
    parquet.NAME: parquet.TITLE,
}
"""What ``--format`` takes, and what each means."""


def format_named(name: str) -> Format:
    """The format of this name; a wrong name is answered with the right ones."""
    found = FORMATS.get(name)
    if found is not None:
        return found
    close = get_close_matches(name, FORMAT_TITLES, n=1)
    known = ", ".join(FORMAT_TITLES)
    raise UserError(
        f"{name!r} is not a trace format we know.",
        fix=f"Did you mean {close[0]!r}?" if close else f"Write one of {known}.",
        code="unknown-trace-format",
    )


def format_of(text: TraceText) -> Format:
    """The format that a file's first lines show."""
    for one in FORMATS.values():
        if one.recognises(text):
            return one
    raise _not_recognised(text)


def _not_recognised(text: TraceText) -> UserError:
    """Says what the nearest format would need; an empty file is told the form we document."""
    header = header_of(text)
    if not header:
        return missing_columns(text.name, own_form.COLUMNS.required, ())
    piped = header_of(text, "|")
    header = piped if len(piped) > len(header) else header
    nearest = max(_TABLES, key=lambda one: _kinship(one, header))
    if not _kinship(nearest, header):
        return UserError(
            f"{text.name}: not a trace in a format we recognise; its first line is {ascii(header)[:120]}.",
            fix=f"Name the format; we know {', '.join(FORMAT_TITLES)}.",
            code="unknown-trace-format",
        )
    error = missing_columns(text.name, nearest.columns.missing(header), header)
    return UserError(
        f"{error.problem} (It looks most like {nearest.name!r}: {nearest.title}.)",
        fix=error.fix,
        code=error.code,
    )


def _kinship(one: TableFormat, header: list[str]) -> float:
    """How much of what a format needs is there, spelled right or nearly."""
    lower = [name.lower() for name in header]
    near = sum(
        bool(get_close_matches(name.lower(), lower, n=1, cutoff=0.8))
        for name in one.columns.required
    )
    return near / len(one.columns.required)

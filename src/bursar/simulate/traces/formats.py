"""Trace formats by name; reads a trace whatever format it is in.

Other packages add their own with ``register_formats``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bursar.model.errors import BrokenInvariant, UserError
from bursar.model.suggestion import close_names, did_you_mean
from bursar.simulate.traces import event_log_trace, kueue, own_form, sacct, swf
from bursar.simulate.traces.input_files import MEMBER_MARK, TraceText, open_trace
from bursar.simulate.traces.table import TableFormat, header_of, missing_columns
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import Trace


class TraceFormat(Protocol):
    """A way to write a workload down."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def recognises(self, text: TraceText) -> bool: ...

    def read(self, text: TraceText, draft: TraceBuilder) -> None: ...


@dataclass(frozen=True, slots=True)
class LineFormat:
    """A format that is no table: its lines mean what its module says."""

    name: str
    title: str
    recognise: Callable[[TraceText], bool]
    read_lines: Callable[[TraceText, TraceBuilder], None]

    def recognises(self, text: TraceText) -> bool:
        """Whether a file's first lines look like it."""
        return self.recognise(text)

    def read(self, text: TraceText, draft: TraceBuilder) -> None:
        """Every line to the draft."""
        self.read_lines(text, draft)


BUILT_IN: Final[tuple[TraceFormat, ...]] = (
    own_form.FORMAT,
    sacct.FORMAT,
    LineFormat(
        event_log_trace.NAME,
        event_log_trace.TITLE,
        event_log_trace.recognises,
        event_log_trace.read,
    ),
    LineFormat(kueue.NAME, kueue.TITLE, kueue.recognises, kueue.read),
    LineFormat(swf.NAME, swf.TITLE, swf.recognises, swf.read),
    LineFormat(swf.CPU_NAME, swf.CPU_TITLE, swf.recognises, swf.read_as_cpu),
)

_FORMATS: dict[str, TraceFormat] = {one.name: one for one in BUILT_IN}


def register_formats(*formats: TraceFormat) -> None:
    """Adds formats for ``--format`` and for recognition, in front of those there are.

    The first that recognises a file wins, so the more particular of two must come first.
    """
    for one in formats:
        if _FORMATS.get(one.name, one) is not one:
            raise BrokenInvariant(f"two trace formats are called {one.name!r}")
    earlier = dict(_FORMATS)
    _FORMATS.clear()
    _FORMATS.update({one.name: one for one in formats} | earlier)


def format_titles() -> Mapping[str, str]:
    """What ``--format`` takes, and what each means."""
    titles = {name: one.title for name, one in _FORMATS.items()}
    return {**titles, own_form.PARQUET_NAME: own_form.PARQUET_TITLE}


def read_trace(path: str | Path, format: str | None = None, *, gpus_only: bool = False) -> Trace:
    """The workload that a file holds, in order of submission.

    The format is taken by name or recognised from the first lines. A row that makes no sense becomes a
    ``BadRow``; what is left out on purpose is counted in the notes. ``gpus_only`` leaves out jobs
    that ask for no GPU.
    """
    draft = TraceBuilder(str(path), gpus_only=gpus_only)
    if format == own_form.PARQUET_NAME or (format is None and _is_parquet(path)):
        own_form.read_parquet(_plain_file(path), draft)
        return draft.trace()
    named = None if format is None else format_named(format)
    with open_trace(path) as text:
        chosen = format_of(text) if named is None else named
        chosen.read(text, draft)
    return draft.trace()


def _is_parquet(path: str | Path) -> bool:
    file = Path(path)
    if not file.is_file():
        return False
    with file.open("rb") as raw:
        return raw.read(len(own_form.PARQUET_MAGIC)) == own_form.PARQUET_MAGIC


def _plain_file(path: str | Path) -> Path:
    """Parquet is read in pieces from all over the file, so it must lie there as it is."""
    if MEMBER_MARK in str(path) or not Path(path).is_file():
        raise UserError(
            f"{path}: there is no such file.",
            fix="Check the path; a Parquet file must be taken out of its archive first.",
            code="trace-not-found",
        )
    return Path(path)


def format_named(name: str) -> TraceFormat:
    """The format of this name; a wrong name is answered with the right ones."""
    found = _FORMATS.get(name)
    if found is not None:
        return found
    known = ", ".join(format_titles())
    raise UserError(
        f"{name!r} is not a trace format we know.",
        fix=did_you_mean(name, format_titles()) or f"Write one of {known}.",
        code="unknown-trace-format",
    )


def format_of(text: TraceText) -> TraceFormat:
    """The format that a file's first lines show."""
    for one in _FORMATS.values():
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
    tables = [one for one in _FORMATS.values() if isinstance(one, TableFormat)]
    nearest = max(tables, key=lambda one: _kinship(one, header))
    if not _kinship(nearest, header):
        return UserError(
            f"{text.name}: not a trace in a format we recognise; its first line is {ascii(header)[:120]}.",
            fix=f"Name the format; we know {', '.join(format_titles())}.",
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
    near = sum(bool(close_names(name.lower(), lower, cutoff=0.8)) for name in one.columns.required)
    return near / len(one.columns.required)

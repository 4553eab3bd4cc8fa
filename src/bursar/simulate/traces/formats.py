"""Trace formats by name, and the reader of a trace in any of them.

Other packages add formats with ``register_formats``.
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
    """A file format for workloads."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def recognises(self) -> Callable[[TraceText], bool]: ...

    @property
    def read(self) -> Callable[[TraceText, TraceBuilder], None]: ...


@dataclass(frozen=True, slots=True)
class LineFormat:
    """A format that is not a table; its module parses the lines."""

    name: str
    title: str
    recognises: Callable[[TraceText], bool]
    read: Callable[[TraceText, TraceBuilder], None]


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
    """Adds formats in front of the existing ones.

    The first format that recognises a file is used, so the more specific of two must come first.
    """
    for one in formats:
        if _FORMATS.get(one.name, one) is not one:
            raise BrokenInvariant(f"two trace formats have the name {one.name!r}")
    earlier = dict(_FORMATS)
    _FORMATS.clear()
    _FORMATS.update({one.name: one for one in formats} | earlier)


def format_titles() -> Mapping[str, str]:
    """The values of ``--format`` with their descriptions."""
    titles = {name: one.title for name, one in _FORMATS.items()}
    return {**titles, own_form.PARQUET_NAME: own_form.PARQUET_TITLE}


def read_trace(path: str | Path, format: str | None = None, *, gpus_only: bool = False) -> Trace:
    """Reads the workload in a file, in order of submission.

    Without a format name, the format is detected from the first lines. An invalid row becomes a
    ``BadRow``; rows left out on purpose are counted in the notes. ``gpus_only`` leaves out jobs
    without GPUs.
    """
    builder = TraceBuilder(str(path), gpus_only=gpus_only)
    if format == own_form.PARQUET_NAME or (format is None and _is_parquet(path)):
        own_form.read_parquet(_plain_file(path), builder)
        return builder.trace()
    named = None if format is None else format_named(format)
    with open_trace(path) as text:
        (named or detect_format(text)).read(text, builder)
    return builder.trace()


def _is_parquet(path: str | Path) -> bool:
    file = Path(path)
    if not file.is_file():
        return False
    with file.open("rb") as raw:
        return raw.read(len(own_form.PARQUET_MAGIC)) == own_form.PARQUET_MAGIC


def _plain_file(path: str | Path) -> Path:
    """Parquet needs random access, so the file must be on disk and not in an archive."""
    if MEMBER_MARK in str(path) or not Path(path).is_file():
        raise UserError(
            f"{path}: there is no such file.",
            fix="Check the path; extract a Parquet file from its archive first.",
            code="trace-not-found",
        )
    return Path(path)


def format_named(name: str) -> TraceFormat:
    """Returns the format with this name; an unknown name is an error that lists the known ones."""
    trace_format = _FORMATS.get(name)
    if trace_format is not None:
        return trace_format
    known = ", ".join(format_titles())
    raise UserError(
        f"{name!r} is not a known trace format.",
        fix=did_you_mean(name, format_titles()) or f"Write one of {known}.",
        code="unknown-trace-format",
    )


def detect_format(text: TraceText) -> TraceFormat:
    """Returns the first format that recognises the file's first lines."""
    for one in _FORMATS.values():
        if one.recognises(text):
            return one
    raise _not_recognised(text)


def _not_recognised(text: TraceText) -> UserError:
    """Names what the most similar format needs; for an empty file, our own form."""
    header = header_of(text)
    if not header:
        return missing_columns(text.name, own_form.COLUMNS.required, ())
    pipe_header = header_of(text, "|")
    header = pipe_header if len(pipe_header) > len(header) else header
    tables = [one for one in _FORMATS.values() if isinstance(one, TableFormat)]
    nearest = max(tables, key=lambda one: _similarity(one, header))
    if not _similarity(nearest, header):
        return UserError(
            f"{text.name}: not a trace in a known format; its first line is {ascii(header)[:120]}.",
            fix=f"Name the format with --format: {', '.join(format_titles())}.",
            code="unknown-trace-format",
        )
    error = missing_columns(text.name, nearest.columns.missing(header), header)
    return UserError(
        f"{error.problem} (The most similar format is {nearest.name!r}: {nearest.title}.)",
        fix=error.fix,
        code=error.code,
    )


def _similarity(one: TableFormat, header: list[str]) -> float:
    """The fraction of a format's required columns that are present, allowing typing errors."""
    lower = [name.lower() for name in header]
    near = sum(bool(close_names(name.lower(), lower, cutoff=0.8)) for name in one.columns.required)
    return near / len(one.columns.required)

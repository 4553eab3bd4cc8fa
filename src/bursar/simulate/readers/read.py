"""A trace from a file, whatever format it is in."""

from __future__ import annotations

from pathlib import Path

from bursar.model.errors import UserError
from bursar.simulate.readers import parquet
from bursar.simulate.readers.draft import TraceDraft
from bursar.simulate.readers.formats import format_named, format_of
from bursar.simulate.readers.source import MEMBER_MARK, open_trace
from bursar.simulate.trace import Trace


def read_trace(path: str | Path, format: str | None = None, *, gpus_only: bool = False) -> Trace:
    """The workload that a file holds, in order of submission.

    The format is taken by name or recognised from the first lines. A row that makes no sense becomes a
    ``BadRow``; what is left out on purpose is counted in the notes. ``gpus_only`` leaves out jobs
    that ask for no GPU.
    """
    draft = TraceDraft(str(path), gpus_only=gpus_only)
    if format == parquet.NAME or (format is None and _is_parquet(path)):
        parquet.read_parquet(_plain_file(path), draft)
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
        return raw.read(len(parquet.MAGIC)) == parquet.MAGIC


def _plain_file(path: str | Path) -> Path:
    """Parquet is read in pieces from all over the file, so it must lie there as it is."""
    if MEMBER_MARK in str(path) or not Path(path).is_file():
        raise UserError(
            f"{path}: there is no such file.",
            fix="Check the path; a Parquet file must be taken out of its archive first.",
            code="trace-not-found",
        )
    return Path(path)

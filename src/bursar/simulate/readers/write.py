"""A trace to a file in our own form, which reads back as the same jobs."""

from __future__ import annotations

import csv
import gzip
import lzma
from pathlib import Path
from typing import TextIO, cast

from bursar.model.errors import UserError
from bursar.simulate.readers.own_form import COLUMNS, fields_of
from bursar.simulate.readers.parquet import write_parquet
from bursar.simulate.trace import Trace

_ENDINGS = (".csv", ".csv.gz", ".csv.xz", ".parquet")


def write_trace(trace: Trace, path: str | Path) -> None:
    """The name decides: ``.csv``, ``.csv.gz``, ``.csv.xz`` or ``.parquet``.

    Columns in which every job has the default are left out of a CSV, as nothing would be lost.
    """
    file = Path(path)
    if file.name.endswith(".parquet"):
        write_parquet(trace.jobs, file)
        return
    if not file.name.endswith(_ENDINGS):
        raise UserError(
            f"{file}: we do not write files of this kind.",
            fix=f"Give it a name that ends in {', '.join(_ENDINGS)}.",
            code="unknown-trace-format",
        )
    always = len(COLUMNS.required)
    used = set(range(always))
    for job in trace.jobs:
        used.update(place for place, field in enumerate(fields_of(job)) if field)
        if len(used) == len(COLUMNS.all):
            break
    kept = sorted(used)
    with _open(file) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([COLUMNS.all[place] for place in kept])
        for job in trace.jobs:
            fields = fields_of(job)
            writer.writerow([fields[place] for place in kept])


def _open(file: Path) -> TextIO:
    if file.name.endswith(".gz"):
        return cast("TextIO", gzip.open(file, "wt", encoding="utf-8", newline=""))
    if file.name.endswith(".xz"):
        return cast("TextIO", lzma.open(file, "wt", encoding="utf-8", newline=""))
    return file.open("w", encoding="utf-8", newline="")

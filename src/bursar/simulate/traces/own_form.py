"""Reads and writes our own trace form, in CSV or Parquet; the README documents its columns.

Parquet needs ``pyarrow``.
"""

from __future__ import annotations

import csv
import gzip
import lzma
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from sys import intern
from typing import Any, TextIO, cast

from bursar.model.errors import UserError
from bursar.simulate.traces.fields import RowProblem, parse_count, parse_seconds, required
from bursar.simulate.traces.gpu_names import gpu_models
from bursar.simulate.traces.table import Columns, Fields, TableFormat, missing_columns
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import Trace, TraceJob

COLUMNS = Columns(
    required=("job_id", "submit_s", "run_s", "gpus"),
    optional=(
        "team",
        "user",
        "name",
        "tasks",
        "gpu_milli",
        "gpu_models",
        "cpu_milli",
        "memory_mib",
        "expected_s",
        "deadline_s",
        "priority",
        "outcome",
    ),
)


def make_job(fields: Fields, _line: int, _builder: TraceBuilder) -> TraceJob:
    """Builds a job from a row; an empty field means the default of ``TraceJob``."""
    (job_id, submit, run, gpus, team, user, name, tasks, milli, models, cpu, memory, expected,
     deadline, priority, ended) = fields  # fmt: skip
    return TraceJob(
        job_id=required(job_id, "job_id"),
        submitted_ms=parse_seconds(submit, "submit_s"),
        run_ms=parse_seconds(run, "run_s"),
        team=intern(team) if team else "all",
        user=intern(user),
        name=name,
        tasks=parse_count(tasks, "tasks", 1) if tasks else 1,
        gpus=parse_count(gpus, "gpus"),
        gpu_milli=parse_count(milli, "gpu_milli") if milli else 0,
        gpu_models=gpu_models(models) if models else (),
        cpu_milli=parse_count(cpu, "cpu_milli") if cpu else 0,
        memory_mib=parse_count(memory, "memory_mib") if memory else 0,
        expected_ms=parse_seconds(expected, "expected_s") if expected else None,
        deadline_ms=parse_seconds(deadline, "deadline_s") if deadline else None,
        priority=parse_count(priority, "priority", -(2**31)) if priority else 0,
        outcome=intern(ended),
    )


def fields_of(job: TraceJob) -> Fields:
    """Returns the row of a job, the inverse of ``make_job``."""
    return (
        job.job_id,
        _in_seconds(job.submitted_ms),
        _in_seconds(job.run_ms),
        str(job.gpus),
        "" if job.team == "all" else job.team,
        job.user,
        job.name,
        "" if job.tasks == 1 else str(job.tasks),
        str(job.gpu_milli or ""),
        "|".join(job.gpu_models),
        str(job.cpu_milli or ""),
        str(job.memory_mib or ""),
        "" if job.expected_ms is None else _in_seconds(job.expected_ms),
        "" if job.deadline_ms is None else _in_seconds(job.deadline_ms),
        str(job.priority or ""),
        job.outcome,
    )


def _in_seconds(time_ms: int) -> str:
    whole_seconds, rest = divmod(time_ms, 1_000)
    return f"{whole_seconds}.{rest:03d}" if rest else str(whole_seconds)


FORMAT = TableFormat(name="csv", title="our own CSV form", columns=COLUMNS, make_job=make_job)


# -- Parquet ---

PARQUET_MAGIC = b"PAR1"
PARQUET_NAME = "parquet"
PARQUET_TITLE = "our own form in Parquet"
BATCH_ROWS = 50_000

_SECONDS = ("submit_s", "run_s", "expected_s", "deadline_s")
_WHOLE = ("gpus", "tasks", "gpu_milli", "cpu_milli", "memory_mib", "priority")


def read_parquet(path: Path, builder: TraceBuilder) -> None:
    """Reads every row into the builder; rows are numbered from 1."""
    file = _pyarrow("pyarrow.parquet").ParquetFile(path)
    names: list[str] = file.schema_arrow.names
    missing = COLUMNS.missing(names)
    if missing:
        raise missing_columns(str(path), missing, names)
    for row, fields in enumerate(_rows(file, names), start=1):
        try:
            builder.add(row, make_job(fields, row, builder))
        except RowProblem as problem:
            builder.reject(row, str(problem))


def write_parquet(jobs: Iterable[TraceJob], path: Path) -> None:
    """Writes all columns, in batches of rows."""
    arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    schema = arrow.schema([(name, _type_of(name, arrow)) for name in COLUMNS.all])
    remaining = iter(jobs)
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := [fields_of(job) for job in islice(remaining, BATCH_ROWS)]:
            columns = [
                [_value(name, text) for text in texts]
                for name, texts in zip(COLUMNS.all, zip(*batch, strict=True), strict=True)
            ]
            writer.write_table(arrow.table(columns, schema=schema))


def _rows(file: Any, names: list[str]) -> Iterator[Fields]:
    present = [name for name in COLUMNS.all if name in names]
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=present):
        values_by_column = batch.to_pydict()
        blank = [None] * batch.num_rows
        columns = (values_by_column.get(name, blank) for name in COLUMNS.all)
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


# -- writing ---

_ENDINGS = (".csv", ".csv.gz", ".csv.xz", ".parquet")


def write_trace(trace: Trace, path: str | Path) -> None:
    """Writes a trace as ``.csv``, ``.csv.gz``, ``.csv.xz`` or ``.parquet``, by the file's name.

    A CSV leaves out the columns in which every job has the default.
    """
    file = Path(path)
    if file.name.endswith(".parquet"):
        write_parquet(trace.jobs, file)
        return
    if not file.name.endswith(_ENDINGS):
        raise UserError(
            f"{file}: cannot write a trace in this format.",
            fix=f"Use a name that ends in {', '.join(_ENDINGS)}.",
            code="unknown-trace-format",
        )
    used = set(range(len(COLUMNS.required)))
    for job in trace.jobs:
        used.update(column for column, field in enumerate(fields_of(job)) if field)
        if len(used) == len(COLUMNS.all):
            break
    columns = sorted(used)
    with _open(file) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([COLUMNS.all[column] for column in columns])
        for job in trace.jobs:
            fields = fields_of(job)
            writer.writerow([fields[column] for column in columns])


def _open(file: Path) -> TextIO:
    if file.name.endswith(".gz"):
        return cast("TextIO", gzip.open(file, "wt", encoding="utf-8", newline=""))
    if file.name.endswith(".xz"):
        return cast("TextIO", lzma.open(file, "wt", encoding="utf-8", newline=""))
    return file.open("w", encoding="utf-8", newline="")

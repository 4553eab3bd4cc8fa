"""Our own form: the columns that the README of this package documents, in CSV or in Parquet.

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
from bursar.simulate.traces.fields import RowProblem, required, seconds, whole
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


def make_job(fields: Fields, _line: int, _draft: TraceBuilder) -> TraceJob:
    """Every empty field is the default of ``TraceJob``."""
    (job_id, submit, run, gpus, team, user, name, tasks, milli, models, cpu, memory, expected,
     deadline, priority, ended) = fields  # fmt: skip
    return TraceJob(
        job_id=required(job_id, "job_id"),
        submitted_ms=seconds(submit, "submit_s"),
        run_ms=seconds(run, "run_s"),
        team=intern(team) if team else "all",
        user=intern(user),
        name=name,
        tasks=whole(tasks, "tasks", 1) if tasks else 1,
        gpus=whole(gpus, "gpus"),
        gpu_milli=whole(milli, "gpu_milli") if milli else 0,
        gpu_models=gpu_models(models) if models else (),
        cpu_milli=whole(cpu, "cpu_milli") if cpu else 0,
        memory_mib=whole(memory, "memory_mib") if memory else 0,
        expected_ms=seconds(expected, "expected_s") if expected else None,
        deadline_ms=seconds(deadline, "deadline_s") if deadline else None,
        priority=whole(priority, "priority", -(2**31)) if priority else 0,
        outcome=intern(ended),
    )


def fields_of(job: TraceJob) -> Fields:
    """The way back: what ``make_job`` reads as this very job."""
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
ROWS_AT_A_TIME = 50_000

_SECONDS = ("submit_s", "run_s", "expected_s", "deadline_s")
_WHOLE = ("gpus", "tasks", "gpu_milli", "cpu_milli", "memory_mib", "priority")


def read_parquet(path: Path, draft: TraceBuilder) -> None:
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


# -- writing ---

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

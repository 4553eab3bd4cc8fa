"""Reads the Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line.

The format counts processors. ``swf`` reads a processor as a GPU, as GPU logs in this format mean it;
``swf-cpu`` reads it as a CPU core. ``-1`` means unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from bursar.simulate.traces.fields import RowProblem, parse_count, parse_seconds
from bursar.simulate.traces.input_files import TraceText
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

NAME = "swf"
CPU_NAME = "swf-cpu"
TITLE = "Standard Workload Format, a processor is a GPU"
CPU_TITLE = "Standard Workload Format, a processor is a CPU core"

FIELDS = 18
UNKNOWN = "-1"
COMMENT = ";"

_STATUS = {"0": "failed", "1": "succeeded", "5": "cancelled"}
_PARTIAL_RUN = frozenset({"2", "3", "4"})


def recognises(text: TraceText) -> bool:
    """Whether the first line is a comment with a semicolon, or 18 numbers."""
    first = next((line for line in text.head if line.strip()), "")
    numbers = first.split()
    return first.startswith(COMMENT) or (
        len(numbers) == FIELDS and numbers[0].isdigit() and "," not in first
    )


def read(text: TraceText, builder: TraceBuilder) -> None:
    """Reads processors as GPUs."""
    builder.add_note("processors are read as GPUs; the format swf-cpu reads them as CPU cores")
    _read(text, builder, _on_gpus)


def read_as_cpu(text: TraceText, builder: TraceBuilder) -> None:
    """Reads processors as CPU cores."""
    _read(text, builder, _on_cpus)


Amounts = tuple[int, int, int]
"""GPUs, thousandths of CPU cores, MiB."""


def _read(text: TraceText, builder: TraceBuilder, amounts: Callable[[int, int], Amounts]) -> None:
    for line, content in enumerate(text.lines, start=1):
        if content.startswith(COMMENT) or not content.strip():
            continue
        try:
            job = _job(content.split(), builder, amounts)
        except RowProblem as problem:
            builder.reject(line, str(problem))
        else:
            if job is not None:
                builder.add(line, job)


def _job(
    fields: list[str], builder: TraceBuilder, amounts: Callable[[int, int], Amounts]
) -> TraceJob | None:
    if len(fields) != FIELDS:
        raise RowProblem(f"has {len(fields)} fields, not {FIELDS}")
    number, submit, _, run, used, _, used_kb, *rest = fields[:13]
    requested, limit, requested_kb, status, user, group = rest
    if status in _PARTIAL_RUN:
        builder.count("partial runs (status 2 to 4) skipped: the job's own line has the total")
        return None
    if run == UNKNOWN and status == "5":
        builder.count("jobs left out that were cancelled before they started")
        return None
    processors = parse_count(requested if used == UNKNOWN else used, "processors", 1)
    kb = requested_kb if requested_kb != UNKNOWN else used_kb
    gpus, cpu_milli, memory_mib = amounts(
        processors, 0 if kb == UNKNOWN else parse_count(kb, "memory") * processors // 1_024
    )
    return TraceJob(
        job_id=number,
        submitted_ms=parse_seconds(submit, "submit time"),
        run_ms=parse_seconds(run, "run time"),
        team="all" if group == UNKNOWN else f"group-{group}",
        user="" if user == UNKNOWN else f"user-{user}",
        gpus=gpus,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        expected_ms=None if limit == UNKNOWN else parse_seconds(limit, "requested time"),
        outcome=_STATUS.get(status, ""),
    )


def _on_gpus(processors: int, memory_mib: int) -> Amounts:
    return processors, 0, memory_mib


def _on_cpus(processors: int, memory_mib: int) -> Amounts:
    return 0, processors * 1_000, memory_mib

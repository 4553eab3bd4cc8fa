"""The Standard Workload Format of the Parallel Workloads Archive: eighteen numbers a line.

It was made for processors. ``swf`` takes a processor for a GPU, which is what GPU logs in this format
mean; ``swf-cpu`` takes it for a CPU core. ``-1`` means not known.
"""

from __future__ import annotations

from collections.abc import Callable

from bursar.simulate.traces.fields import RowProblem, seconds, whole
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
_PART_OF_A_JOB = frozenset({"2", "3", "4"})


def recognises(text: TraceText) -> bool:
    """A comment with a semicolon, or eighteen numbers."""
    first = next((line for line in text.head if line.strip()), "")
    numbers = first.split()
    return first.startswith(COMMENT) or (
        len(numbers) == FIELDS and numbers[0].isdigit() and "," not in first
    )


def read(text: TraceText, draft: TraceBuilder) -> None:
    """Processors as GPUs."""
    draft.remark("processors are taken for GPUs; the format swf-cpu takes them for CPU cores")
    _read(text, draft, _on_gpus)


def read_as_cpu(text: TraceText, draft: TraceBuilder) -> None:
    """Processors as CPU cores."""
    _read(text, draft, _on_cpus)


Amounts = tuple[int, int, int]
"""GPUs, thousandths of CPU cores, MiB."""


def _read(text: TraceText, draft: TraceBuilder, amounts: Callable[[int, int], Amounts]) -> None:
    for line, content in enumerate(text.lines, start=1):
        if content.startswith(COMMENT) or not content.strip():
            continue
        try:
            job = _job(content.split(), draft, amounts)
        except RowProblem as problem:
            draft.reject(line, str(problem))
        else:
            if job is not None:
                draft.add(line, job)


def _job(
    fields: list[str], draft: TraceBuilder, amounts: Callable[[int, int], Amounts]
) -> TraceJob | None:
    if len(fields) != FIELDS:
        raise RowProblem(f"has {len(fields)} fields, not {FIELDS}")
    number, submit, _, run, used, _, used_kb, asked, limit, asked_kb, status, user, group = fields[
        :13
    ]
    if status in _PART_OF_A_JOB:
        draft.count("parts of a job (status 2 to 4) skipped: its own line has the whole")
        return None
    if run == UNKNOWN and status == "5":
        draft.count("jobs cancelled before they started, left out")
        return None
    processors = whole(asked if used == UNKNOWN else used, "processors", 1)
    kb = asked_kb if asked_kb != UNKNOWN else used_kb
    gpus, cpu_milli, memory_mib = amounts(
        processors, 0 if kb == UNKNOWN else whole(kb, "memory") * processors // 1_024
    )
    return TraceJob(
        job_id=number,
        submitted_ms=seconds(submit, "submit time"),
        run_ms=seconds(run, "run time"),
        team="all" if group == UNKNOWN else f"group-{group}",
        user="" if user == UNKNOWN else f"user-{user}",
        gpus=gpus,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        expected_ms=None if limit == UNKNOWN else seconds(limit, "requested time"),
        outcome=_STATUS.get(status, ""),
    )


def _on_gpus(processors: int, memory_mib: int) -> Amounts:
    return processors, 0, memory_mib


def _on_cpus(processors: int, memory_mib: int) -> Amounts:
    return 0, processors * 1_000, memory_mib

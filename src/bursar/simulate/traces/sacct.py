"""Reads Slurm's accounting: the output of ``sacct -P``, with a line of column names.

    sacct -P -a -X -S 2026-01-01 -o JobID,User,Account,Partition,JobName,Submit,Start,End,Elapsed,\\
        State,Timelimit,NNodes,AllocTRES,ReqTRES

Steps (``7.batch``) belong to their job and are skipped, also without ``-X``. Each task of an array is a
job. Times without a zone are UTC.
"""

from __future__ import annotations

from sys import intern

from bursar.simulate.traces.fields import (
    RowProblem,
    elapsed_ms,
    parse_count,
    parse_outcome,
    parse_time,
    per_node,
    required,
)
from bursar.simulate.traces.gpu_names import gpu_model
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob
from bursar.slurm_text import BadSlurmText, parse_duration_ms, parse_memory_mib, parse_tres

_NEVER = frozenset({"", "Unknown", "None"})


def _job(fields: Fields, _line: int, builder: TraceBuilder) -> TraceJob | None:
    job_id, submit, start, end, elapsed, allocated, requested, *rest = fields
    user, account, name, state, limit, nodes, priority = rest
    skip_reason = _skip_reason(job_id, start)
    if skip_reason:
        builder.count(skip_reason)
        return None
    tres = _tres(allocated or requested)
    gpus, models = _gpus(tres)
    node_count = parse_count(nodes or tres.get("node", "1"), "NNodes") or 1
    tasks, task_gpus = per_node(gpus, node_count)
    return TraceJob(
        job_id=required(job_id, "JobID"),
        submitted_ms=parse_time(submit, "Submit"),
        run_ms=_run_ms(parse_time(start, "Start"), end, elapsed, builder),
        team=intern(account) if account else "all",
        user=intern(user),
        name=name,
        tasks=tasks,
        gpus=task_gpus,
        gpu_models=models,
        cpu_milli=parse_count(tres.get("cpu", "0"), "cpu of TRES") * 1_000 // tasks,
        memory_mib=_memory_mib(tres.get("mem", "0")) // tasks,
        expected_ms=_duration_ms(limit, "Timelimit"),
        priority=parse_count(priority, "Priority") if priority else 0,
        outcome=parse_outcome(state),
    )


def _skip_reason(job_id: str, start: str) -> str | None:
    """Why a row is skipped; None if it is a job."""
    if "." in job_id:
        return "job steps skipped: they are part of their job"
    if "[" in job_id:
        return "array tasks that had not started, left out"
    if start in _NEVER:
        return "jobs never started, left out"
    return None


def _run_ms(start_ms: int, end: str, elapsed: str, builder: TraceBuilder) -> int:
    if end not in _NEVER:
        return elapsed_ms(start_ms, parse_time(end, "End"), "End")
    run_ms = _duration_ms(elapsed, "Elapsed")
    if run_ms is None:
        raise RowProblem("End is not known and Elapsed is not given")
    builder.count("jobs still running: their run time so far")
    return run_ms


def _duration_ms(text: str, column: str) -> int | None:
    try:
        return parse_duration_ms(text)
    except BadSlurmText:
        raise RowProblem(f"{column} is {text!r}, not a duration like 1-02:03:04") from None


def _tres(text: str) -> dict[str, str]:
    try:
        return parse_tres(text)
    except BadSlurmText as error:
        raise RowProblem(f"TRES: {error}") from None


def _gpus(tres: dict[str, str]) -> tuple[int, tuple[str, ...]]:
    """All GPUs of a job, and their models where the site names them."""
    typed = {
        name.removeprefix("gres/gpu:"): parse_count(amount, name)
        for name, amount in tres.items()
        if name.startswith("gres/gpu:")
    }
    plain = tres.get("gres/gpu")
    total = parse_count(plain, "gres/gpu") if plain is not None else sum(typed.values())
    models = {gpu_model(name) for name, count in typed.items() if count}
    return total, tuple(sorted(models))


def _memory_mib(text: str) -> int:
    try:
        return round(parse_memory_mib(text))
    except BadSlurmText:
        raise RowProblem(f"mem of TRES is {text!r}, not an amount like 512G") from None


FORMAT = TableFormat(
    name="sacct",
    title="Slurm accounting, sacct -P",
    columns=Columns(
        required=("JobID", "Submit", "Start"),
        optional=(
            "End",
            "Elapsed",
            "AllocTRES",
            "ReqTRES",
            "User",
            "Account",
            "JobName",
            "State",
            "Timelimit",
            "NNodes",
            "Priority",
        ),
        one_of=(("End", "Elapsed"), ("AllocTRES", "ReqTRES")),
    ),
    make_job=_job,
    delimiter="|",
)

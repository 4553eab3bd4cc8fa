"""Slurm's accounting: the output of ``sacct -P`` with its line of column names.

    sacct -P -a -X -S 2026-01-01 -o JobID,User,Account,Partition,JobName,Submit,Start,End,Elapsed,\\
        State,Timelimit,NNodes,AllocTRES,ReqTRES

Steps (``7.batch``) are part of their job and skipped, also without ``-X``. Each task of an array is a
job. Times without a zone are taken as UTC.
"""

from __future__ import annotations

import re
from sys import intern

from bursar.simulate.traces.fields import (
    RowProblem,
    between,
    clock,
    moment,
    outcome,
    per_node,
    required,
    whole,
)
from bursar.simulate.traces.gpu_names import gpu_model
from bursar.simulate.traces.table import Columns, Fields, TableFormat
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

_NEVER = frozenset({"", "Unknown", "None"})
_NO_LIMIT = frozenset({"", "UNLIMITED", "Partition_Limit", "INVALID"})
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[cn]?")
_MIB = {"K": 1 / 1_024, "": 1, "M": 1, "G": 1_024, "T": 1_024**2, "P": 1_024**3}


def _job(fields: Fields, _line: int, draft: TraceBuilder) -> TraceJob | None:
    job_id, submit, start, end, elapsed, allocated, asked, *rest = fields
    user, account, name, state, limit, nodes, priority = rest
    skipped = _skipped(job_id, start)
    if skipped:
        draft.count(skipped)
        return None
    tres = _tres(allocated or asked)
    gpus, models = _gpus(tres)
    node_count = whole(nodes or tres.get("node", "1"), "NNodes") or 1
    tasks, each = per_node(gpus, node_count)
    return TraceJob(
        job_id=required(job_id, "JobID"),
        submitted_ms=moment(submit, "Submit"),
        run_ms=_run_ms(moment(start, "Start"), end, elapsed, draft),
        team=intern(account) if account else "all",
        user=intern(user),
        name=name,
        tasks=tasks,
        gpus=each,
        gpu_models=models,
        cpu_milli=whole(tres.get("cpu", "0"), "cpu of TRES") * 1_000 // tasks,
        memory_mib=_memory_mib(tres.get("mem", "0")) // tasks,
        expected_ms=None if limit in _NO_LIMIT else clock(limit, "Timelimit"),
        priority=whole(priority, "Priority") if priority else 0,
        outcome=outcome(state),
    )


def _skipped(job_id: str, start: str) -> str | None:
    """Why a row is no job of its own, if it is not."""
    if "." in job_id:
        return "job steps skipped: they are part of their job"
    if "[" in job_id:
        return "array tasks that had not started, left out"
    if start in _NEVER:
        return "jobs never started, left out"
    return None


def _run_ms(start_ms: int, end: str, elapsed: str, draft: TraceBuilder) -> int:
    if end not in _NEVER:
        return between(start_ms, moment(end, "End"), "End")
    if not elapsed:
        raise RowProblem("End is not known and Elapsed is not given")
    draft.count("jobs still running: their run time so far")
    return clock(elapsed, "Elapsed")


def _tres(text: str) -> dict[str, str]:
    """``billing=8,cpu=64,gres/gpu:a100=8`` by name."""
    found = {}
    for part in text.split(","):
        name, mark, amount = part.partition("=")
        if mark:
            found[name] = amount
        elif name:
            raise RowProblem(f"TRES has {part!r}, which is not name=amount")
    return found


def _gpus(tres: dict[str, str]) -> tuple[int, tuple[str, ...]]:
    """All GPUs of a job, and their models where the site names them."""
    typed = {
        name.removeprefix("gres/gpu:"): whole(amount, name)
        for name, amount in tres.items()
        if name.startswith("gres/gpu:")
    }
    plain = tres.get("gres/gpu")
    total = whole(plain, "gres/gpu") if plain is not None else sum(typed.values())
    models = {gpu_model(name) for name, count in typed.items() if count}
    return total, tuple(sorted(models))


def _memory_mib(text: str) -> int:
    parts = _MEMORY.fullmatch(text)
    if parts is None:
        raise RowProblem(f"mem of TRES is {text!r}, not an amount like 512G")
    return round(float(parts[1]) * _MIB[parts[2]])


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

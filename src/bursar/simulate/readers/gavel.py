"""Gavel's traces (OSDI'20): tab-separated lines without column names.

Ten fields (``physical_cluster``) or the older seven (``msr``). A line says how many steps a job takes,
not how long, so the run time is that on V100s at the speeds the artifact measured.
"""

from __future__ import annotations

from bursar.simulate.readers.draft import TraceDraft
from bursar.simulate.readers.gavel_speeds import SCALES, STEPS_PER_SECOND
from bursar.simulate.readers.source import TraceText
from bursar.simulate.readers.values import RowProblem, scaled, seconds, whole
from bursar.simulate.trace import TraceJob

NAME = "gavel"
TITLE = "Gavel (OSDI'20), physical_cluster and msr traces"

NEW_FIELDS = 10
OLD_FIELDS = 7


def recognises(text: TraceText) -> bool:
    """Tabs, and one of the two numbers of fields."""
    first = next((line for line in text.head if line.strip()), "")
    return first.count("\t") + 1 in (NEW_FIELDS, OLD_FIELDS)


def read(text: TraceText, draft: TraceDraft) -> None:
    """One job a line; it is named after its line."""
    draft.remark("run times are those on V100s, from the artifact's measured steps per second")
    for line, content in enumerate(text.lines, start=1):
        fields = content.rstrip("\r\n").split("\t")
        if fields == [""]:
            continue
        try:
            draft.add(line, _job(fields, line, draft))
        except RowProblem as problem:
            draft.reject(line, str(problem))


def _job(fields: list[str], line: int, draft: TraceDraft) -> TraceJob:
    if len(fields) == NEW_FIELDS:
        kind, _, _, _, _, steps, scale, priority, slo, arrival = fields
    elif len(fields) == OLD_FIELDS:
        kind, _, _, _, steps, arrival, scale = fields
        priority, slo = "1", "-1"
    else:
        raise RowProblem(f"has {len(fields)} fields, not {NEW_FIELDS} or {OLD_FIELDS}")
    gpus = whole(scale, "scale_factor", 1)
    submitted_ms = seconds(arrival, "arrival")
    run_ms = round(whole(steps, "total_steps") * 1_000 / _speed(kind, gpus, draft))
    return TraceJob(
        job_id=f"gavel-{line:06d}",
        submitted_ms=submitted_ms,
        run_ms=run_ms,
        name=kind,
        gpus=gpus,
        priority=scaled(priority, "priority", 1),
        deadline_ms=_deadline(slo, submitted_ms, run_ms),
    )


def _speed(kind: str, gpus: int, draft: TraceDraft) -> float:
    """A job type that was not measured at this scale is as fast as at the largest smaller one."""
    speeds = STEPS_PER_SECOND.get(kind)
    if speeds is None:
        raise RowProblem(f"no speed was measured for job type {kind!r}")
    measured = [place for place, scale in enumerate(SCALES[: len(speeds)]) if scale <= gpus]
    if SCALES[measured[-1]] != gpus:
        draft.count("jobs at a scale that was not measured: speed of the largest smaller one")
    return speeds[measured[-1]]


def _deadline(slo: str, submitted_ms: int, run_ms: int) -> int | None:
    """An SLO is a multiple of the run time; a negative one means none."""
    if slo.startswith("-"):
        return None
    return submitted_ms + round(run_ms * scaled(slo, "SLO", 1_000) / 1_000)

"""Gavel's traces (OSDI'20): tab-separated lines without a header.

Lines have ten fields (``physical_cluster``) or the older seven (``msr``). They give the steps of a job,
not its run time, so the run time is computed with the artifact's measured speeds on V100s.
"""

from __future__ import annotations

from bursar.simulate.traces.fields import RowProblem, parse_count, parse_scaled, parse_seconds
from bursar.simulate.traces.input_files import TraceText
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

SCALES = (1, 2, 4, 8)

STEPS_PER_SECOND: dict[str, tuple[float, ...]] = {
    "ResNet-18 (batch size 16)": (32.353, 100.142, 123.854, 382.597),
    "ResNet-18 (batch size 32)": (29.947, 94.249, 114.733, 340.038),
    "ResNet-18 (batch size 64)": (24.093, 74.136, 95.588, 255.829),
    "ResNet-18 (batch size 128)": (17.995, 23.985, 69.951, 162.092),
    "ResNet-18 (batch size 256)": (10.3, 15.883, 27.782, 81.507),
    "ResNet-50 (batch size 16)": (11.396, 13.86, 23.196, 27.799),
    "ResNet-50 (batch size 32)": (7.787, 10.835, 13.763, 24.067),
    "ResNet-50 (batch size 64)": (4.395, 7.922, 9.452, 17.303),
    "ResNet-50 (batch size 128)": (2.497, 4.223, 7.029, 10.293),
    "Transformer (batch size 16)": (11.064, 14.154, 20.085, 71.652),
    "Transformer (batch size 32)": (10.621, 13.328, 22.823, 63.978),
    "Transformer (batch size 64)": (8.618, 15.876, 19.66, 49.651),
    "Transformer (batch size 128)": (5.446, 10.069, 14.175, 30.884),
    "Transformer (batch size 256)": (1.595, 2.885, 4.763, 9.717),
    "A3C": (7.176,),
    "LM (batch size 5)": (109.167, 185.724, 126.716, 698.773),
    "LM (batch size 10)": (81.652, 163.129, 121.478, 615.093),
    "LM (batch size 20)": (64.742, 132.174, 110.997, 497.295),
    "LM (batch size 40)": (45.237, 91.593, 96.031, 359.307),
    "LM (batch size 80)": (28.24, 58.092, 74.807, 231.176),
    "Recommendation (batch size 512)": (23.318,),
    "Recommendation (batch size 1024)": (13.283,),
    "Recommendation (batch size 2048)": (7.47,),
    "Recommendation (batch size 4096)": (3.906,),
    "Recommendation (batch size 8192)": (2.842,),
    "CycleGAN": (4.426,),
}
"""Steps per second of Gavel's job types on 1, 2, 4 and 8 V100s (OSDI'20, MIT licence).

From the artifact's ``simulation_throughputs.json``: workers on one machine that runs nothing else."""


NAME = "gavel"
TITLE = "Gavel (OSDI'20), physical_cluster and msr traces"

NEW_FIELDS = 10
OLD_FIELDS = 7


def recognises(text: TraceText) -> bool:
    """Whether the first line has ten or seven fields, separated by tabs."""
    first = next((line for line in text.head if line.strip()), "")
    return first.count("\t") + 1 in (NEW_FIELDS, OLD_FIELDS)


def read(text: TraceText, builder: TraceBuilder) -> None:
    """Reads one job per line; its id is its line number."""
    builder.add_note("run times are those on V100s, from the artifact's measured steps per second")
    for line, content in enumerate(text.lines, start=1):
        fields = content.rstrip("\r\n").split("\t")
        if fields == [""]:
            continue
        try:
            builder.add(line, _job(fields, line, builder))
        except RowProblem as problem:
            builder.reject(line, str(problem))


def _job(fields: list[str], line: int, builder: TraceBuilder) -> TraceJob:
    if len(fields) == NEW_FIELDS:
        kind, _, _, _, _, steps, scale, priority, slo, arrival = fields
    elif len(fields) == OLD_FIELDS:
        kind, _, _, _, steps, arrival, scale = fields
        priority, slo = "1", "-1"
    else:
        raise RowProblem(f"has {len(fields)} fields, not {NEW_FIELDS} or {OLD_FIELDS}")
    gpus = parse_count(scale, "scale_factor", 1)
    submitted_ms = parse_seconds(arrival, "arrival")
    run_ms = round(parse_count(steps, "total_steps") * 1_000 / _speed(kind, gpus, builder))
    return TraceJob(
        job_id=f"gavel-{line:06d}",
        submitted_ms=submitted_ms,
        run_ms=run_ms,
        name=kind,
        gpus=gpus,
        priority=parse_scaled(priority, "priority", 1),
        deadline_ms=_deadline(slo, submitted_ms, run_ms),
    )


def _speed(kind: str, gpus: int, builder: TraceBuilder) -> float:
    """Steps per second; a scale that was not measured uses the next smaller one that was."""
    speeds = STEPS_PER_SECOND.get(kind)
    if speeds is None:
        raise RowProblem(f"no speed was measured for job type {kind!r}")
    measured = [index for index, scale in enumerate(SCALES[: len(speeds)]) if scale <= gpus]
    if SCALES[measured[-1]] != gpus:
        builder.count("jobs at a scale that was not measured: speed of the next smaller one")
    return speeds[measured[-1]]


def _deadline(slo: str, submitted_ms: int, run_ms: int) -> int | None:
    """An SLO is a multiple of the run time; a negative SLO means none."""
    if slo.startswith("-"):
        return None
    return submitted_ms + round(run_ms * parse_scaled(slo, "SLO", 1_000) / 1_000)

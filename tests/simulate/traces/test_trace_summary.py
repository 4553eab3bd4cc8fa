"""The summary of a trace, with every number checked by hand."""

from __future__ import annotations

from bursar.simulate.traces.trace_summary import describe
from bursar.simulate.workload.trace import BadRow, Trace, TraceJob

HOUR = 3_600_000


def test_a_small_trace_in_numbers() -> None:
    jobs = (
        TraceJob(job_id="a", submitted_ms=0, run_ms=HOUR, team="x", user="u", gpus=8, tasks=2),
        TraceJob(job_id="b", submitted_ms=HOUR, run_ms=2 * HOUR, team="y", gpu_milli=500),
        TraceJob(job_id="c", submitted_ms=HOUR, run_ms=60_000, team="y", cpu_milli=1),
        TraceJob(job_id="d", submitted_ms=2 * HOUR, run_ms=0, team="y", gpus=1, deadline_ms=3 * HOUR),
    )  # fmt: skip
    bad = BadRow(file="t.csv", line=7, problem="gpus is empty")
    summary = describe(Trace(source="t.csv", jobs=jobs, bad_rows=(bad,), notes=("n",)), gpus=17)
    assert summary.jobs == 4
    assert summary.span_ms == 2 * HOUR
    assert summary.gpu_hours == 17.0
    assert summary.load == 0.5
    assert summary.jobs_per_hour == 2.0
    assert [(part.team, part.jobs, part.gpu_hours) for part in summary.teams] == [
        ("x", 1, 16.0),
        ("y", 3, 1.0),
    ]
    sizes = {name: count for name, count in summary.sizes if count}
    assert sizes == {"no GPU": 1, "part of a GPU": 1, "1": 1, "9-16": 1}
    assert summary.run_quantiles_ms == ((50, 60_000), (90, 2 * HOUR), (99, 2 * HOUR))
    assert summary.mean_run_ms == (3 * HOUR + 60_000) / 4
    assert summary.with_deadline == 1
    text = "\n".join(summary.lines())
    for words in (
        "jobs        4 over 2.0 h (2.0 an hour)",
        "GPU-hours   17",
        "load        50.0% of 17 GPUs",
        "note        n",
        "bad rows    1",
        "  t.csv:7: gpus is empty",
        "deadlines   1 jobs have one",
    ):
        assert words in text


def test_an_empty_trace_has_a_summary() -> None:
    summary = describe(Trace(source="none", jobs=()), gpus=8)
    assert (summary.jobs, summary.gpu_hours, summary.load) == (0, 0, None)
    assert summary.lines()[0] == "none"

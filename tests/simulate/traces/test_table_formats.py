"""Table formats: a good row becomes its job, a bad one is reported with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.model.errors import UserError
from bursar.simulate.traces.formats import BUILT_IN
from bursar.simulate.traces.table import TableFormat
from bursar.simulate.workload.trace import TraceJob
from tests.support.table_formats import (
    GoodRow,
    check_bad_row,
    check_good_row,
    check_missing_column,
    check_without_rows,
    read,
)

# format -> header, a good row, its job.
GOOD: dict[str, GoodRow] = {
    "csv": (
        "job_id,submit_s,run_s,gpus",
        "a,0,1.5,8",
        TraceJob(job_id="a", submitted_ms=0, run_ms=1_500, gpus=8),
    ),
    "sacct": (
        "JobID|User|Account|Partition|JobName|Submit|Start|End|Elapsed|State|Timelimit|NNodes|"
        "AllocTRES|ReqTRES",
        '12_3|ann|nlp|gpu|say "hi"|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T01:00:10|'
        "01:00:00|CANCELLED by 7|1-00:00:00|2|"
        "billing=8,cpu=64,gres/gpu:a100=16,gres/gpu=16,mem=512G,node=2|",
        TraceJob(
            job_id="12_3",
            submitted_ms=0,
            run_ms=3_600_000,
            team="nlp",
            user="ann",
            name='say "hi"',
            tasks=2,
            gpus=8,
            gpu_models=("a100-40gb",),
            cpu_milli=32_000,
            memory_mib=256 * 1_024,
            expected_ms=86_400_000,
            outcome="cancelled",
        ),
    ),
}  # fmt: skip

# format -> a row under the same header, and the reported problem.
BAD: list[tuple[str, str, str]] = [
    ("csv", "b,-1,1,8", "submit_s is -1, before 0"),
    ("csv", "b,0,soon,8", "run_s is 'soon', not a number"),
    ("csv", "b,0,nan,8", "run_s is 'nan', not a number"),
    ("csv", "b,0,inf,8", "run_s is 'inf', not a number"),
    ("csv", "b,0,,8", "run_s is empty"),
    ("csv", "b,0,1,0.5", "gpus is 0.5, not a whole number"),
    ("csv", ",0,1,8", "job_id is empty"),
    ("csv", "b,0,1", "has 3 fields; the header has 4"),
    ("csv", "b,0,1,8,9", "has 5 fields; the header has 4"),
    ("csv", "a,0,1,8", "a second job has the id 'a'"),
    (
        "sacct",
        "13|a|n|g|x|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:00:00|1:00|F||1|cpu=1|",
        "End is 10 s before its start",
    ),
    (
        "sacct",
        "13|a|n|g|x|2026-01-01T00:00:00|2026-01-01T00:00:10|Unknown|later|RUNNING||1|cpu=1|",
        "Elapsed is 'later', not a duration",
    ),
    (
        "sacct",
        "13|a|n|g|x|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:00:20|1:00|F||1|"
        "gres/gpu:warp=1|",
        "'warp' is not a known GPU model",
    ),
]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_row_is_a_job_and_its_format_is_recognised(tmp_path: Path, name: str) -> None:
    check_good_row(tmp_path, name, GOOD[name])


@pytest.mark.parametrize(("name", "row", "problem"), BAD)
def test_a_bad_row_is_reported_and_the_others_are_read(
    tmp_path: Path, name: str, row: str, problem: str
) -> None:
    check_bad_row(tmp_path, name, GOOD[name], row, problem)


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_column_is_named(tmp_path: Path, name: str) -> None:
    check_missing_column(tmp_path, name, GOOD[name])


@pytest.mark.parametrize("name", GOOD)
def test_an_empty_file_and_one_without_rows(tmp_path: Path, name: str) -> None:
    check_without_rows(tmp_path, name, GOOD[name])


def test_every_table_format_is_covered() -> None:
    tables = {one.name for one in BUILT_IN if isinstance(one, TableFormat)}
    assert tables == set(GOOD) == {name for name, _, _ in BAD}


def test_jobs_are_in_order_of_submission_and_the_clock_starts_with_the_first(
    tmp_path: Path,
) -> None:
    rows = "c,12.0005,1,1,20\nb,10,1,1,\na,12.0005,1,1,30\n"
    trace = read(tmp_path, f"job_id,submit_s,run_s,gpus,deadline_s\n{rows}")
    assert [(job.job_id, job.submitted_ms, job.deadline_ms) for job in trace] == [
        ("b", 0, None),
        ("a", 2_001, 20_000),
        ("c", 2_001, 10_000),
    ]


def test_jobs_without_gpus_are_left_out_where_asked(tmp_path: Path) -> None:
    text = "job_id,submit_s,run_s,gpus,gpu_milli\na,0,1,0,\nb,0,1,0,250\nc,0,1,2,\n"
    assert len(read(tmp_path, text)) == 3
    trace = read(tmp_path, text, gpus_only=True)
    assert [job.job_id for job in trace] == ["b", "c"]
    assert trace.notes == ("1 jobs without GPUs left out",)


def test_slurm_rows_that_are_no_jobs_are_counted(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|Elapsed|State|Timelimit|ReqTRES"
    job = "2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T01:00:10|01:00:00|COMPLETED|UNLIMITED"
    rows = [
        f"1|{job}|gres/gpu=4,mem=4000M",
        f"1.batch|{job}|cpu=1",
        f"1.extern|{job}|cpu=1",
        "2_[4-9%2]|2026-01-01T00:00:00|Unknown|Unknown|00:00:00|PENDING|1:00|gres/gpu=4",
        "3|2026-01-01T00:00:00|None|2026-01-01T00:00:10|00:00:00|CANCELLED|1:00|gres/gpu=4",
        "4|2026-01-01T00:00:00|2026-01-01T00:00:10|Unknown|2-00:00:01|RUNNING|10:00|gres/gpu=4",
    ]
    trace = read(tmp_path, "\n".join([header, *rows]))
    assert [(one.job_id, one.run_ms, one.gpus) for one in trace] == [
        ("1", 3_600_000, 4),
        ("4", 172_801_000, 4),
    ]
    assert trace.jobs[0].expected_ms is None
    assert trace.jobs[0].memory_mib == 4_000
    assert trace.bad_rows == ()
    assert trace.notes == (
        "1 array tasks that had not started, left out",
        "2 job steps skipped: they are part of their job",
        "1 jobs never started, left out",
        "1 jobs still running: their run time so far",
    )


def test_slurm_output_without_gpus_or_ends_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="End or Elapsed, AllocTRES or ReqTRES missing"):
        read(tmp_path, "JobID|Submit|Start\n1|x|y\n", "sacct")

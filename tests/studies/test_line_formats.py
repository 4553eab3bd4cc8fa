"""Formats of papers that are not job tables: Gavel, and the task table of PAI."""

from __future__ import annotations

from pathlib import Path

import pytest

import studies.formats  # noqa: F401  registers them
from bursar.simulate.traces import read_trace
from bursar.simulate.workload.trace import Trace, TraceJob

RESNET = "ResNet-18 (batch size 64)"


def read(folder: Path, text: str, name: str = "trace.txt") -> Trace:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return read_trace(file)


# -- Gavel -------------------------------------------------------------------------------------------


def test_gavel_run_times_come_from_steps(tmp_path: Path) -> None:
    new = f"{RESNET}\tpython3 x\tdir\t--n\t1\t24093\t1\t1\t-1.000000\t5"
    old = "A3C\tcd x\t-step\t1\t7176\t7.5\t8"
    trace = read(tmp_path, f"{new}\n")
    assert trace.jobs == (
        TraceJob(
            job_id="gavel-000001", submitted_ms=0, run_ms=1_000_000, name=RESNET, gpus=1, priority=1
        ),
    )
    trace = read(tmp_path, f"{old}\n\n{new}\n")
    assert [(job.run_ms, job.gpus, job.submitted_ms) for job in trace] == [
        (1_000_000, 1, 0),
        (1_000_000, 8, 2_500),
    ]
    assert "1 jobs at a scale that was not measured" in trace.notes[1]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("A3C\tx\ty", "has 3 fields, not 10 or 7"),
        ("Doom\tcd x\t-step\t1\t7176\t7.5\t8", "no speed was measured for job type 'Doom'"),
        ("A3C\tcd x\t-step\t1\t7176\t-7.5\t8", "arrival is -7.5, before 0"),
        ("A3C\tcd x\t-step\t1\t7176\t7.5\t0", "scale_factor is 0, less than 1"),
    ],
)
def test_a_bad_gavel_line_is_reported(tmp_path: Path, line: str, problem: str) -> None:
    trace = read(tmp_path, f"A3C\tcd x\t-step\t1\t7176\t7.5\t8\n{line}\n")
    assert len(trace) == 1
    assert (trace.bad_rows[0].line, trace.bad_rows[0].problem) == (2, problem)


# -- PAI's tables ------------------------------------------------------------------------------------

TASKS = """\
j1,ps,1.0,Terminated,100.0,200.0,600.0,29.296875,,
j1,worker,4.0,Terminated,110.0,210.0,600.0,10.0,50.0,V100
j2,tensorflow,1.0,Failed,105.0,305.0,600.0,10.0,150.0,MISC
j3,tensorflow,0.0,Failed,105.0,305.0,600.0,10.0,100.0,T4
j4,tensorflow,1.0,Failed,305.0,105.0,600.0,10.0,100.0,T4
j5,tensorflow,1.0,Running,305.0,,600.0,10.0,100.0,T4
"""


def test_roles_of_a_pai_job_become_equal_tasks(tmp_path: Path) -> None:
    trace = read(tmp_path, TASKS, name="pai_task_table.csv")
    one, two = trace.jobs
    assert one == TraceJob(
        job_id="j1",
        submitted_ms=0,
        run_ms=110_000,
        tasks=4,
        gpu_milli=500,
        gpu_models=("v100-16gb",),
        cpu_milli=6_000,
        memory_mib=10_240,
        outcome="succeeded",
    )
    assert (two.gpus, two.gpu_milli, two.gpu_models) == (2, 0, ("anonymous-misc",))
    assert [(bad.line, bad.problem) for bad in trace.bad_rows] == [
        (4, "inst_num is 0.0, less than 1"),
        (5, "end_time is 200 s before its start"),
    ]
    assert len(trace.notes) == 4


def test_a_job_table_in_the_same_folder_adds_users_and_submission_times(tmp_path: Path) -> None:
    jobs = "j1,abc,ann,Terminated,60.0,210.0\nj2,abd,bob,Failed,,\n"
    (tmp_path / "pai_job_table.csv").write_text(jobs)
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    trace = read(tmp_path, header + TASKS, name="pai_task_table.csv")
    assert [(job.job_id, job.user, job.submitted_ms) for job in trace] == [
        ("j1", "ann", 0),
        ("j2", "", 45_000),
    ]
    assert [bad.line for bad in trace.bad_rows] == [5, 6]

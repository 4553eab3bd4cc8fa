"""Formats that are tables: a good row is the job it should be, a bad one is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.model.errors import UserError
from bursar.simulate.readers import FORMAT_TITLES, read_trace
from bursar.simulate.readers.formats import FORMATS
from bursar.simulate.readers.table import TableFormat
from bursar.simulate.trace import Trace, TraceJob

# format -> header, a good row, the job it is.
GOOD: dict[str, tuple[str, str, TraceJob]] = {
    "csv": (
        "job_id,submit_s,run_s,gpus",
        "a,0,1.5,8",
        TraceJob(job_id="a", submitted_ms=0, run_ms=1_500, gpus=8),
    ),
    "bench": (
        "job_id,submit_s,num_gpus,duration_s,vc",
        "7,100,4,57,11cb48",
        TraceJob(job_id="7", submitted_ms=0, run_ms=57_000, gpus=4, team="11cb48"),
    ),
    "philly": (
        "timestamp,duration,num_gpus,gpu_time,cluster",
        "2017-10-09 07:01:55,66.0,2,132.0,11cb48",
        TraceJob(
            job_id="philly-0000001", submitted_ms=0, run_ms=66_000, gpus=2, team="11cb48"
        ),
    ),
    "helios": (
        "job_id,user,tenant,class,submit_time,num_chips,chip_type,num_nodes,duration_s,"
        "walltime_limit_s,final_status",
        "765563,uH3om,vcvGl,finetune,5835000000,128,V100,16,24.0,24.0,CANCELED",
        TraceJob(
            job_id="765563",
            submitted_ms=0,
            run_ms=24_000,
            team="vcvGl",
            user="uH3om",
            name="finetune",
            tasks=16,
            gpus=8,
            gpu_models=("v100-16gb",),
            outcome="cancelled",
        ),
    ),
    "helios-log": (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
        "9,u1,vc1,16,32,2,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,"
        "2020-04-01 00:02:30,90,60",
        TraceJob(
            job_id="9",
            submitted_ms=0,
            run_ms=90_000,
            team="vc1",
            user="u1",
            tasks=2,
            gpus=8,
            cpu_milli=16_000,
            outcome="succeeded",
        ),
    ),
    "acme": (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,"
        "submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time",
        "dlctk696,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,"
        "2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,,,18,10.0,1152.0",
        TraceJob(
            job_id="dlctk696",
            submitted_ms=0,
            run_ms=8_000,
            user="uf794",
            name="Other",
            tasks=8,
            gpus=8,
            cpu_milli=120_000,
            memory_mib=1_024_000,
            outcome="failed",
        ),
    ),
    "pai": (
        "job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user",
        "j1,2,300,6.0,0.5,T4,120,u9",
        TraceJob(
            job_id="j1",
            submitted_ms=0,
            run_ms=120_000,
            user="u9",
            tasks=2,
            gpu_milli=500,
            gpu_models=("t4-16gb",),
            cpu_milli=6_000,
        ),
    ),
    "openb": (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time",
        "pod-1,6000,12288,1,460,G2|V100M16,LS,Running,10,100,40",
        TraceJob(
            job_id="pod-1",
            submitted_ms=0,
            run_ms=60_000,
            team="LS",
            gpu_milli=460,
            gpu_models=("anonymous-g2", "v100-16gb"),
            cpu_milli=6_000,
            memory_mib=12_288,
            outcome="running",
        ),
    ),
    "muri": (
        "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
        "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority",
        "1,8,201694000,8787693,dqn,128,4472936000,201694000,509,435,8,0.5,1",
        TraceJob(
            job_id="1", submitted_ms=0, run_ms=4_472_936_000, name="dqn", gpus=8, priority=1
        ),
    ),
    "chronus": (
        "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,"
        "expect_time_list,expect_value_list,best_effort,job_type",
        "0,vc_6214e9,2,8555,5049,vgg16,747,14,1105-2000,10-5,0,soft",
        TraceJob(
            job_id="0",
            submitted_ms=0,
            run_ms=747 * 60_000,
            team="vc_6214e9",
            name="vgg16",
            gpus=2,
            deadline_ms=1_105 * 60_000,
        ),
    ),
    "hydra": (
        ",job_name,norm_job_submit_time,ddl,A100,V100,GTX2080Ti",
        "3,75c6,0,32383.0,6609.0,10856.0,14600.0",
        TraceJob(
            job_id="75c6", submitted_ms=0, run_ms=6_609_000, gpus=1, deadline_ms=32_383_000
        ),
    ),
    "pollux": (
        "name,time,application,num_replicas,batch_size",
        "cifar10-0,107,cifar10,6,2048",
        TraceJob(
            job_id="cifar10-0", submitted_ms=0, run_ms=825_000, name="cifar10", gpus=6
        ),
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

# format -> a row under the same header, and what is said of it.
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
    ("csv", "a,0,1,8", "a second job is called 'a'"),
    ("bench", "8,100,-4,57,v", "num_gpus is -4, less than 0"),
    ("philly", "yesterday,66.0,2,132.0,v", "timestamp is 'yesterday', not a date and time"),
    ("philly", "2017-10-09 07:01:55,66.0,0,0,v", "num_gpus is 0, less than 1"),
    ("helios", "7,u,v,f,0,8,,0,24.0,24.0,CANCELED", "num_nodes is 0, less than 1"),
    (
        "helios",
        "7,u,v,f,0,8,V1000,1,24.0,24.0,X",
        "'V1000' is not a GPU model we know: did you mean",
    ),
    ("pai", "j2,0,300,6,1,T4,120,u", "num_inst is 0, less than 1"),
    ("pai", "j2,1,300,6,1,Z9,120,u", "'Z9' is not a GPU model we know"),
    ("openb", "p,6000,1,1,460,,LS,Running,10,20,40", "deletion_time is 20 s before its start"),
    ("openb", "p,6000,1,2,460,,LS,Running,10,90,40", "several must be whole"),
    ("openb", "p,6000,1,1,1460,,LS,Running,10,90,40", "more than one GPU"),
    ("muri", "2,8,-1,8,dqn,128,44,20,509,435,8,0.5,1", "submit_time is -1, less than 0"),
    ("chronus", "1,vc,2,8555,5049,vgg16,747,14,soon,10,0,strict", "expect_time_list is 'soon'"),
    ("hydra", "3,x,0,late,6609.0,10856.0,14600.0", "ddl is 'late', not a number"),
    ("pollux", "n,107,doom,6,2048", "no profile of application 'doom'"),
    (
        "acme",
        "d,u,8,64,960,1,1,Other,FAILED,2023-05-17 11:00:58,2023-05-17 11:01:08,"
        "2023-05-17 11:01:00,,,18,10.0,1152.0",
        "end_time is 8 s before its start",
    ),
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
        "'warp' is not a GPU model we know",
    ),
]


def read(folder: Path, text: str, format: str | None = None, *, gpus_only: bool = False) -> Trace:
    file = folder / "trace.txt"
    file.write_text(text, encoding="utf-8")
    return read_trace(file, format, gpus_only=gpus_only)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_row_is_a_job_and_its_format_is_recognised(tmp_path: Path, name: str) -> None:
    header, row, job = GOOD[name]
    text = f"{header}\n{row}\n"
    by_itself = read(tmp_path, text)
    assert by_itself.jobs == (job,)
    assert by_itself.bad_rows == ()
    assert read(tmp_path, text, name) == by_itself


@pytest.mark.parametrize(("name", "row", "problem"), BAD)
def test_a_bad_row_is_told_and_the_rest_kept(
    tmp_path: Path, name: str, row: str, problem: str
) -> None:
    header, good, job = GOOD[name]
    trace = read(tmp_path, f"{header}\n{good}\n\n{row}\n", name)
    assert [kept.run_ms for kept in trace] == [job.run_ms]
    (bad,) = trace.bad_rows
    assert problem in bad.problem
    assert (bad.file, bad.line) == (str(tmp_path / "trace.txt"), 4)
    assert str(bad).startswith(f"{tmp_path / 'trace.txt'}:4: ")


def test_every_table_format_is_shown() -> None:
    tables = {name for name, one in FORMATS.items() if isinstance(one, TableFormat)}
    assert tables - {"hydra-v100", "hydra-2080ti"} == set(GOOD)
    assert {name for name, _, _ in BAD} == set(GOOD) - {"helios-log"}


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_column_is_named(tmp_path: Path, name: str) -> None:
    header, row, _ = GOOD[name]
    table = FORMATS[name]
    assert isinstance(table, TableFormat)
    wanted = table.columns.required[0]
    with pytest.raises(UserError) as told:
        read(tmp_path, f"{header.replace(wanted, wanted + 'x')}\n{row}\n", name)
    assert told.value.code == "trace-columns-missing"
    assert f"column {wanted} missing" in told.value.problem
    assert str(tmp_path / "trace.txt") in told.value.problem
    assert f"Did you write '{wanted}x' for '{wanted}'?" in told.value.fix


@pytest.mark.parametrize("name", GOOD)
def test_an_empty_file_and_one_without_rows(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="the file is empty"):
        read(tmp_path, "", name)
    assert read(tmp_path, GOOD[name][0] + "\n").jobs == ()


def test_hydra_has_a_run_time_for_each_gpu_type(tmp_path: Path) -> None:
    header, row, _ = GOOD["hydra"]
    runs = {
        name: read(tmp_path, f"{header}\n{row}\n", name).jobs[0].run_ms
        for name in FORMAT_TITLES
        if name.startswith("hydra")
    }
    assert runs == {"hydra": 6_609_000, "hydra-v100": 10_856_000, "hydra-2080ti": 14_600_000}


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


def test_an_openb_pod_that_never_ran_is_kept_and_counted(tmp_path: Path) -> None:
    header = GOOD["openb"][0]
    trace = read(tmp_path, f"{header}\np,1,1,8,1000,,BE,Pending,10,70,\n")
    assert (trace.jobs[0].run_ms, trace.jobs[0].gpus) == (60_000, 8)
    assert "1 pods never scheduled" in trace.notes[0]


def test_an_uneven_split_over_nodes_stays_one_task(tmp_path: Path) -> None:
    header = GOOD["helios"][0]
    trace = read(tmp_path, f"{header}\n1,u,v,f,0,9,,2,1,1,COMPLETED\n")
    assert (trace.jobs[0].tasks, trace.jobs[0].gpus) == (1, 9)


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

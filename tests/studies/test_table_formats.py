"""Table formats of papers: a good row becomes its job, a bad one is reported with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.simulate.traces import format_titles
from bursar.simulate.traces.table import TableFormat
from bursar.simulate.workload.trace import TraceJob
from studies.formats import FORMATS
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
}  # fmt: skip

# format -> a row under the same header, and the reported problem.
BAD: list[tuple[str, str, str]] = [
    ("bench", "8,100,-4,57,v", "num_gpus is -4, less than 0"),
    ("philly", "yesterday,66.0,2,132.0,v", "timestamp is 'yesterday', not a date and time"),
    ("philly", "2017-10-09 07:01:55,66.0,0,0,v", "num_gpus is 0, less than 1"),
    ("helios", "7,u,v,f,0,8,,0,24.0,24.0,CANCELED", "num_nodes is 0, less than 1"),
    (
        "helios",
        "7,u,v,f,0,8,V1000,1,24.0,24.0,X",
        "'V1000' is not a known GPU model. Did you mean",
    ),
    ("pai", "j2,0,300,6,1,T4,120,u", "num_inst is 0, less than 1"),
    ("pai", "j2,1,300,6,1,Z9,120,u", "'Z9' is not a known GPU model"),
    ("openb", "p,6000,1,1,460,,LS,Running,10,20,40", "deletion_time is 20 s before its start"),
    ("openb", "p,6000,1,2,460,,LS,Running,10,90,40", "more than 1 must be whole"),
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
    tables = {one.name for one in FORMATS if isinstance(one, TableFormat)}
    assert tables - {"hydra-v100", "hydra-2080ti"} == set(GOOD)
    assert {name for name, _, _ in BAD} == set(GOOD) - {"helios-log"}


def test_hydra_has_a_run_time_for_each_gpu_type(tmp_path: Path) -> None:
    header, row, _ = GOOD["hydra"]
    runs = {
        name: read(tmp_path, f"{header}\n{row}\n", name).jobs[0].run_ms
        for name in format_titles()
        if name.startswith("hydra")
    }
    assert runs == {"hydra": 6_609_000, "hydra-v100": 10_856_000, "hydra-2080ti": 14_600_000}


def test_an_openb_pod_that_never_ran_is_kept_and_counted(tmp_path: Path) -> None:
    header = GOOD["openb"][0]
    trace = read(tmp_path, f"{header}\np,1,1,8,1000,,BE,Pending,10,70,\n")
    assert (trace.jobs[0].run_ms, trace.jobs[0].gpus) == (60_000, 8)
    assert "1 pods never scheduled" in trace.notes[0]


def test_an_uneven_split_over_nodes_stays_one_task(tmp_path: Path) -> None:
    header = GOOD["helios"][0]
    trace = read(tmp_path, f"{header}\n1,u,v,f,0,9,,2,1,1,COMPLETED\n")
    assert (trace.jobs[0].tasks, trace.jobs[0].gpus) == (1, 9)

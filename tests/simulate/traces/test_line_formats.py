"""Trace formats that are not tables: SWF, Kueue objects and our event log."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

from bursar.model import event as ev
from bursar.model.jobs.job import JobSpec, MpsShare, TaskGroup, WholeGpus
from bursar.simulate.demo.demo import demonstration
from bursar.simulate.simulation import Simulation
from bursar.simulate.traces import read_trace
from bursar.simulate.workload.event_log import RecordedRun, write_events, write_run
from bursar.simulate.workload.trace import Trace, TraceJob


def read(folder: Path, text: str, format: str | None = None, name: str = "trace.txt") -> Trace:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return read_trace(file, format)


# -- SWF ---------------------------------------------------------------------------------------------

SWF = "; Version: 2.2\n;\n 1 10 5 60 8 -1 2048 16 120 -1 1 3 4 -1 1 -1 -1 -1\n"


def test_swf_processors_are_gpus_or_cores(tmp_path: Path) -> None:
    trace = read(tmp_path, SWF)
    assert trace.jobs == (
        TraceJob(
            job_id="1",
            submitted_ms=0,
            run_ms=60_000,
            team="group-4",
            user="user-3",
            gpus=8,
            memory_mib=16,
            expected_ms=120_000,
            outcome="succeeded",
        ),
    )
    (on_cores,) = read(tmp_path, SWF, "swf-cpu").jobs
    assert (on_cores.gpus, on_cores.cpu_milli) == (0, 8_000)


def test_incomplete_swf_lines(tmp_path: Path) -> None:
    part = "1 10 5 30 8 -1 -1 8 120 -1 2 3 4 -1 1 -1 -1 -1\n"
    cancelled = "2 10 5 -1 -1 -1 -1 8 120 -1 5 3 4 -1 1 -1 -1 -1\n"
    unknown = "3 10 5 -1 8 -1 -1 8 120 -1 1 3 4 -1 1 -1 -1 -1\n"
    trace = read(tmp_path, f"{SWF}{part}{cancelled}{unknown}4 10 5\n")
    assert len(trace) == 1
    assert [(bad.line, bad.problem) for bad in trace.bad_rows] == [
        (6, "run time is -1, before 0"),
        (7, "has 3 fields, not 18"),
    ]
    assert [note.split(" ", 1)[0] for note in trace.notes[1:]] == ["1", "1"]


# -- Kueue -------------------------------------------------------------------------------------------


def workload(name: str = "train", **status: Any) -> dict[str, Any]:
    """A finished Workload of four workers with two GPUs each and one launcher."""

    def pods(count: int, **requests: str) -> dict[str, Any]:
        containers = [{"name": "c", "resources": {"requests": requests}}]
        selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        spec = {"containers": containers, "nodeSelector": selector}
        return {"name": "main", "count": count, "template": {"spec": spec}}

    gpu = {"nvidia.com/gpu": "2", "cpu": "1500m", "memory": "64Gi"}
    conditions = [
        {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"},
        {"type": "Admitted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"},
        {
            "type": "Finished",
            "status": "True",
            "reason": "Succeeded",
            "lastTransitionTime": "2026-01-01T01:00:10Z",
        },
    ]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "queueName": "local",
            "priority": 100,
            "maximumExecutionTimeSeconds": 7200,
            "podSets": [pods(1, cpu="1"), pods(4, **gpu)],
        },
        "status": {
            "admission": {"clusterQueue": "research"},
            "conditions": conditions,
            **status,
        },
    }


KUEUE_JOB = TraceJob(
    job_id="ml/train",
    submitted_ms=0,
    run_ms=3_600_000,
    team="research",
    user="ml",
    tasks=4,
    gpus=2,
    gpu_models=("h100-80gb",),
    cpu_milli=1_500,
    memory_mib=65_536,
    expected_ms=7_200_000,
    priority=100,
    outcome="succeeded",
)


def test_workloads_as_lines_as_a_list_or_as_watch_events(tmp_path: Path) -> None:
    pending = workload(conditions=[])
    lines = [json.dumps(pending), "", json.dumps(workload())]
    watched = [json.dumps({"type": "MODIFIED", "object": one}) for one in (pending, workload())]
    whole = json.dumps({"kind": "List", "items": [workload()]}, indent=2)
    for text in ("\n".join(lines), "\n".join(watched), whole, json.dumps(json.loads(whole))):
        trace = read(tmp_path, text)
        assert trace.jobs == (KUEUE_JOB,)
        assert trace.bad_rows == ()
        assert "CPU-only tasks" in trace.notes[0]


def test_bad_workloads_are_reported(tmp_path: Path) -> None:
    no_pods, odd = workload("none"), workload("odd")
    no_pods["spec"]["podSets"] = []
    odd["spec"]["podSets"] = [{"count": 0}]
    early = workload("early")
    early["status"]["conditions"][2]["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    bad = [json.dumps(one) for one in (no_pods, odd, early)]
    text = "\n".join([json.dumps(workload()), "{", *bad, json.dumps(workload("w", conditions=[]))])
    trace = read(tmp_path, text)
    assert trace.jobs == (KUEUE_JOB,)
    assert [(row.line, row.problem[:30]) for row in trace.bad_rows] == [
        (2, "is not JSON (Expecting propert"),
        (3, "has no podSets"),
        (4, "count of podSet is 0, less tha"),
        (5, "Finished is 10 s before its st"),
    ]
    assert "1 Workloads left out that had not finished" in trace.notes


# -- our own event log -------------------------------------------------------------------------------


def submitted(job_id: str, at_ms: int = 1_000) -> ev.JobSubmitted:
    whole = TaskGroup(count=2, gpu=WholeGpus(count=8, models=("h100-80gb",)), cpu_milli=4_000)
    spec = JobSpec(name="n", queue="q", groups=(whole,), expected_run_ms=5, deadline_ms=99_000)
    return ev.JobSubmitted(at_ms=at_ms, job_id=job_id, spec=spec, priority=3)


def log(*events: ev.Event) -> str:
    file = io.StringIO()
    write_events(events, file)
    return file.getvalue()


def test_lost_work_is_not_run_time(tmp_path: Path) -> None:
    at = {"job_id": "a", "attempt": 1}
    trace = read(
        tmp_path,
        log(
            submitted("a"),
            ev.AttemptStarted(at_ms=2_000, **at),
            ev.CheckpointSaved(at_ms=5_000, **at),
            ev.AttemptPreempted(at_ms=6_000, **at),
            ev.AttemptStarted(at_ms=10_000, job_id="a", attempt=2),
            ev.AttemptSucceeded(at_ms=14_000, job_id="a", attempt=2),
        ),
    )
    assert trace.jobs == (
        TraceJob(
            job_id="a",
            submitted_ms=0,
            run_ms=7_000,
            team="q",
            name="n",
            tasks=2,
            gpus=8,
            gpu_models=("h100-80gb",),
            cpu_milli=4_000,
            expected_ms=5,
            deadline_ms=98_000,
            priority=3,
            outcome="succeeded",
        ),
    )


def test_jobs_that_failed_or_did_not_end(tmp_path: Path) -> None:
    events = [submitted(job_id) for job_id in "abcd"]
    started = [ev.AttemptStarted(at_ms=2_000, job_id=one, attempt=1) for one in "abc"]
    ends = [
        ev.AttemptFailed(at_ms=4_000, job_id="a", attempt=1),
        ev.JobCancelled(at_ms=4_000, job_id="b"),
        ev.AttemptPreempted(at_ms=5_000, job_id="b", attempt=1),
    ]
    trace = read(tmp_path, log(*events, *started, *ends) + '{"type":"JobLost"}\n')
    assert [(job.job_id, job.run_ms, job.outcome) for job in trace] == [
        ("a", 2_000, "failed"),
        ("b", 3_000, "cancelled"),
        ("c", 3_000, "running"),
    ]
    assert trace.notes == (
        "1 jobs never started, left out",
        "1 jobs still running: their run time so far",
    )
    assert trace.bad_rows[0].line == 11
    assert "is not an event" in trace.bad_rows[0].problem


def test_an_mps_share_is_a_fraction_of_a_gpu(tmp_path: Path) -> None:
    one = submitted("a")
    groups = (TaskGroup(gpu=MpsShare(percent=30)),)
    share = ev.JobSubmitted(
        at_ms=0, job_id="b", spec=JobSpec(name="n", queue="q", groups=groups), priority=0
    )
    started = ev.AttemptStarted(at_ms=2_000, job_id="b", attempt=1)
    trace = read(tmp_path, log(one, share, started))
    assert [(job.job_id, job.gpus, job.gpu_milli) for job in trace] == [("b", 0, 300)]


def test_the_demonstration_is_read_back_with_its_true_run_times(tmp_path: Path) -> None:
    scenario = demonstration(7)
    steps = Simulation(scenario).steps()
    events = [event for step in steps for event in (*step.events, *step.committed)]
    run = RecordedRun(
        fleet=scenario.fleet, tenants=scenario.tenants, policies=scenario.policies, events=events
    )
    file = io.StringIO()
    write_run(run, file)
    trace = read(tmp_path, file.getvalue())
    assert trace.bad_rows == ()
    starts = Counter(event.job_id for event in events if isinstance(event, ev.AttemptStarted))
    assert {job.job_id for job in trace} == set(starts)
    undisturbed = [job for job in trace if starts[job.job_id] == 1 and job.outcome == "succeeded"]
    assert len(undisturbed) > 10
    for job in undisturbed:
        assert job.run_ms == scenario.run_ms.get(job.job_id, job.expected_ms)

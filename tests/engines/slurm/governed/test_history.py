"""The history of sacct becomes a log: every run once, on exclusive devices, billed exactly."""

from __future__ import annotations

from collections import Counter
from io import StringIO

from bursar.accounting.ledger.ledger import Ledger
from bursar.config import FleetFile, parse_fleet
from bursar.core.state.fleet_state import FleetState
from bursar.engines.slurm.governed.import_history import (
    FIELDS,
    SlurmHistory,
    history_of,
    last_runs,
    read_runs,
    spread,
)
from bursar.model.event import (
    AttemptAssigned,
    AttemptFailed,
    AttemptPreempted,
    AttemptSucceeded,
    FleetDeclared,
    JobCancelled,
    JobSubmitted,
)
from bursar.model.units import HOUR_MS, USD_MICRO

FLEET = """
clusters: {lab: {engine: slurm}}
pools:
  t4:
    market: owned
    gpus: t4 x 4
    cpus: 32
    memory_gib: 64
    usd_per_node_hour: 3.6
    labels: {in-train: "yes", slurm.partition: train}
    nodes: [n1, n2]
  cpu:
    market: owned
    cpus: 16
    memory_gib: 64
    usd_per_node_hour: 0.36
    labels: {in-login: "yes", slurm.partition: login}
    nodes: [c1]
tenants: {lab: {children: {vision: {}, speech: {children: {speech-jobs: {}, speech-tts: {}}}}}}
priority_classes: {normal: 0, gold: 100}
"""
DAY = "2026-11-16T"


def row(job: str, times: str, state: str, **more: str) -> str:
    """``times`` are minutes past two: submit, start, end."""
    submit, start, end = (f"{DAY}02:{one}:00" if one.isdigit() else one for one in times.split())
    gpus, nodes = more.get("gpus", "4"), more.get("nodes", "n1")
    count = "2" if "," in nodes else "1"
    values = {
        "JobID": job,
        "JobIDRaw": job,
        "User": "ann",
        "Account": "vision",
        "Partition": "train",
        "QOS": "gold",
        "Submit": submit,
        "Start": start,
        "End": end,
        "Elapsed": "",
        "State": state,
        "Timelimit": "01:00:00",
        "NNodes": count,
        "NodeList": nodes,
        "ExitCode": "0:0",
        "AllocTRES": f"cpu=4,gres/gpu={gpus},mem=8G,node={count}",
        "ReqTRES": "",
        "JobName": "x",
    }
    values |= {key: value for key, value in more.items() if key in values}
    return "|".join(values[name] for name in FIELDS)


def sacct(*rows: str) -> str:
    return "\n".join(["|".join(FIELDS), *rows, ""])


def fleet() -> FleetFile:
    return parse_fleet({"fleet.yaml": FLEET})


def history(*rows: str) -> SlurmHistory:
    file = fleet()
    return history_of(sacct(*rows), file.fleet, file.tenants, file.policies)


def kinds(imported: SlurmHistory, job: str) -> list[str]:
    return [type(one).__name__ for one in imported.events if getattr(one, "job_id", "") == job]


def test_a_job_that_succeeded() -> None:
    imported = history(row("7", "00 01 11", "COMPLETED"))
    assert kinds(imported, "7") == [
        "JobSubmitted",
        "AttemptAssigned",
        "AttemptStarted",
        "AttemptSucceeded",
    ]
    submitted = imported.events[0]
    assert isinstance(submitted, JobSubmitted)
    assert (submitted.spec.queue, submitted.spec.priority_class, submitted.priority) == (
        "vision",
        "gold",
        100,
    )
    assert submitted.spec.groups[0].gpu.models == ("t4-16gb",)
    assert submitted.spec.constraints.node_labels == (("in-train", "yes"),)
    assert submitted.spec.max_run_ms == HOUR_MS
    assert imported.owners == {"7": "ann"}
    assert imported.bad == ()


def test_a_requeued_job_has_an_attempt_for_each_run() -> None:
    imported = history(
        row("7", "00 01 03", "PREEMPTED"),
        row("7", "03 05 09", "NODE_FAIL", nodes="n2"),
        row("7", "09 10 20", "COMPLETED"),
    )
    ended = [one for one in imported.events if isinstance(one, AttemptPreempted | AttemptSucceeded)]
    assert [(type(one).__name__, one.attempt) for one in ended] == [
        ("AttemptPreempted", 1),
        ("AttemptPreempted", 2),
        ("AttemptSucceeded", 3),
    ]
    assert kinds(imported, "7").count("JobSubmitted") == 1


def test_other_ends_of_jobs() -> None:
    imported = history(
        row("1", "00 01 03", "FAILED", ExitCode="3:0"),
        row("2", "00 03 04", "TIMEOUT", ExitCode="0:15"),
        row("3", "00 04 05", "CANCELLED by 20001"),
        row("4", "00 Unknown 06", "CANCELLED", nodes="None assigned"),
        row("5", "00 06 Unknown", "RUNNING"),
        row("6", "00 Unknown Unknown", "PENDING", nodes="None assigned"),
    )
    failed = {one.job_id: one.exit for one in imported.events if isinstance(one, AttemptFailed)}
    assert failed["1"].code == 3 and failed["2"].signal == 15 and failed["2"].detail == "TIMEOUT"
    assert {one.job_id for one in imported.events if isinstance(one, JobCancelled)} == {"3", "4"}
    assert kinds(imported, "4") == ["JobSubmitted", "JobCancelled"]
    assert kinds(imported, "5")[-1] == "AttemptStarted"
    assert kinds(imported, "6") == ["JobSubmitted"]


def test_no_device_is_assigned_to_two_jobs_at_a_time() -> None:
    imported = history(
        row("1", "00 01 05", "COMPLETED", gpus="2"),
        row("2", "00 01 09", "COMPLETED", gpus="2"),
        row("3", "00 05 07", "COMPLETED", gpus="2"),
        row("4", "00 09 11", "COMPLETED", gpus="8", nodes="n1,n2"),
    )
    gpus = {
        one.job_id: [task.gpus for task in one.placement.tasks]
        for one in imported.events
        if isinstance(one, AttemptAssigned)
    }
    assert gpus == {
        "1": [(0, 1)],
        "2": [(2, 3)],
        "3": [(0, 1)],
        "4": [(0, 1, 2, 3), (0, 1, 2, 3)],
    }


def test_the_log_can_be_applied_to_a_fleet_state() -> None:
    imported = history(
        row("1", "00 01 05", "COMPLETED", gpus="4"),
        row("2", "00 05 05", "FAILED", gpus="4", ExitCode="1:0"),
        row("3", "00 06 08", "PREEMPTED", gpus="4"),
        row("3", "08 08 09", "CANCELLED by 0", gpus="4", nodes="n2"),
        row(
            "4", "01 02 03", "COMPLETED", gpus="0", nodes="c1", Partition="login", Account="speech"
        ),
    )
    file = fleet()
    state = FleetState(file.fleet, file.tenants, file.policies)
    for event in imported.events:
        state.apply(event)
    assert not state.jobs


def test_invalid_rows_are_reported_and_skipped() -> None:
    good = row("1", "00 01 05", "COMPLETED")
    imported = history(
        good,
        row("2", "00 05 01", "COMPLETED"),
        row("3", "00 06 07", "COMPLETED", nodes="gone1"),
        row("4", "00 06 07", "COMPLETED", gpus="9"),
        row("5", "00 06 07", "COMPLETED", Account="removed"),
        row("6", "00 06 07", "COMPLETED", AllocTRES="lots"),
        "7|7|ann",
    )
    assert [str(one) for one in imported.bad] == [
        "sacct:3: job 2: it ended 240 s before it started",
        "sacct:4: job 3: it ran on nodes that no longer exist: gone1",
        "sacct:5: job 4: more GPUs were in use on n1 than it has",
        "sacct:6: job 5: its account 'removed' no longer exists",
        "sacct:7: job 6: 'lots' is not name=amount",
        "sacct:8: job 7: has 3 of 18 columns",
    ]
    assert imported.owners == {"1": "ann"}
    assert Counter(type(one) for one in imported.events)[AttemptSucceeded] == 1


def test_a_name_may_contain_the_column_separator() -> None:
    runs, bad = read_runs(sacct(row("1", "00 01 05", "COMPLETED", JobName="a|b|c")))
    assert (runs[0].name, bad) == ("a|b|c", [])


def test_jobs_of_an_account_with_child_accounts_have_their_own_queue() -> None:
    imported = history(row("1", "00 01 05", "COMPLETED", Account="speech"))
    submitted = imported.events[0]
    assert isinstance(submitted, JobSubmitted) and submitted.spec.queue == "speech-jobs"


def test_the_bill_is_the_nodes_price() -> None:
    """One hour of a whole node of $3.60, half of the second node, and an idle third."""
    imported = history(
        row("1", "00 00 30", "COMPLETED", gpus="4"),
        row("2", "00 30 59", "FAILED", gpus="2", nodes="n2", ExitCode="1:0"),
    )
    file, ledger = fleet(), Ledger()
    at_ms = imported.events[0].at_ms
    ledger.apply(
        FleetDeclared(at_ms=at_ms, fleet=file.fleet, tenants=file.tenants, policies=file.policies)
    )
    for event in imported.events:
        ledger.apply(event)
    ledger.meter.close(at_ms + HOUR_MS)
    balances = ledger.books.balances()
    assert balances["usage:vision"] == 1_800_000
    assert balances["waste:vision"] == 3_600_000 * 29 // 60 // 2
    assert ledger.books.fleet_micro_usd() == round(2 * 3.6 * USD_MICRO + 0.36 * USD_MICRO)
    assert ledger.books.trial_balance() == 0


def test_the_trace_has_only_the_last_run_of_a_job() -> None:
    rows = [row("7", "00 01 03", "PREEMPTED"), row("8", "00 01 03", "COMPLETED")]
    again = row("7", "03 05 09", "COMPLETED")
    kept = StringIO(last_runs(sacct(*rows, again))).read().splitlines()
    assert kept == ["|".join(FIELDS), again, rows[1]]


def test_whole_numbers_are_spread_evenly() -> None:
    assert spread(7, 3) == [3, 2, 2]
    assert spread(8, 2) == [4, 4]

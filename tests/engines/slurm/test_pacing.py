"""Advice about Slurm's scheduler, and the background task that polls Slurm."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from bursar.cli.commands.operations.doctor_checks import DoctorCheck, slurm
from bursar.engines.slurm.commands.background import BackgroundTask
from bursar.engines.slurm.driven.pacing import EPILOG_LINE, FAST_LINE, advice
from bursar.model.errors import EngineFault
from bursar.wiring.slurm.engine import pacing_note
from tests.support.slurm_lab import LabPlan
from tests.support.slurm_lab.conf import PLAIN_LINE, LabLocation, slurm_conf
from tests.support.slurm_lab.lab_spec import t4_nodes

FAST = FAST_LINE.partition("=")[2]
DONE = "/etc/slurm/epilog.sh"


def advice_text(config: Mapping[str, str]) -> str:
    advised = advice(config)
    return f"{advised.problem} {advised.fix}" if advised is not None else ""


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("(null)", ["batch_sched_delay is 3 s by default", "bf_interval is 30 s by default"]),
        ("", ["batch_sched_delay is 3 s by default", "bf_interval is 30 s by default"]),
        ("bf_interval=60,batch_sched_delay=0", ["bf_interval is 60 s."]),
        ("bf_continue,batch_sched_delay=10,bf_interval=1", ["batch_sched_delay is 10 s."]),
        ("bf_interval=soon,batch_sched_delay=0", ["bf_interval is 30 s"]),
    ],
)
def test_slow_settings_are_named_with_their_fix(parameters: str, expected: list[str]) -> None:
    text = advice_text({"SchedulerParameters": parameters, "Epilog": DONE})
    assert all(words in text for words in expected)
    assert text.count(" is ") == len(expected), "no other setting is named"
    assert text.endswith(FAST_LINE)


def test_the_recommended_settings_are_fast() -> None:
    settings = {"SchedulerParameters": FAST, "Epilog": "/bin/true"}
    assert advice_text(settings) == ""
    assert advice_text({**settings, "SchedulerParameters": f"preempt_youngest_first,{FAST}"}) == ""


def test_an_epilog_is_recommended_if_nodes_do_not_report_ends() -> None:
    for unset in ({}, {"Epilog": "(null)", "PrologFlags": "Alloc"}):
        assert advice_text({"SchedulerParameters": FAST, **unset}).endswith(f": {EPILOG_LINE}")
    assert advice_text({"SchedulerParameters": FAST, "PrologFlags": "Alloc,Contain"}) == ""
    text = advice_text({})
    assert FAST_LINE in text and EPILOG_LINE in text


def scontrol_that(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "scontrol"
    program.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_doctor_checks_the_local_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "echo 'ClusterName             = lab'; echo 'SLURM_VERSION           = 22.05.8'; "
        "echo 'Epilog                  = /bin/true'; "
        "echo 'SchedulerParameters     = {}'"
    )
    scontrol_that(lines.format("bf_interval=5,batch_sched_delay=0"), tmp_path, monkeypatch)
    assert "bf_interval is 5 s" in pacing_note()
    (check,) = slurm()
    assert check.result == "warn" and check.fix.endswith(FAST_LINE)
    assert check.found.startswith("cluster lab, Slurm 22.05.8. Slurm's scheduler runs less often")
    scontrol_that(lines.format(FAST), tmp_path, monkeypatch)
    assert pacing_note() == ""
    assert list(slurm()) == [DoctorCheck("slurm", "ok", "cluster lab, Slurm 22.05.8", "")]


def test_an_unreachable_slurm_does_not_prevent_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol_that("echo 'Unable to contact slurm controller' >&2; exit 1", tmp_path, monkeypatch)
    assert pacing_note() == ""
    (check,) = slurm()
    assert check.result == "warn" and "Unable to contact slurm controller" in check.found


def test_the_doctor_skips_slurm_without_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(slurm()) == [] and pacing_note() == ""


@pytest.mark.parametrize(
    ("quick", "wanted"), [(True, [FAST_LINE, EPILOG_LINE]), (False, [PLAIN_LINE])]
)
def test_a_lab_has_the_settings_of_its_plan(quick: bool, wanted: list[str]) -> None:
    place = LabLocation(
        folder=Path("/lab"),
        host="here",
        user="slurm",
        controller_port=1,
        database_port=2,
        accounting_port=3,
        node_ports=(4,),
        password="",
    )
    lines = slurm_conf(LabPlan(nodes=t4_nodes(1), quick=quick), place).splitlines()
    assert [one for one in lines if one.startswith(("SchedulerParameters=", "Epilog="))] == wanted


# -- background tasks ------------------------------------------------------------------------------


def test_a_background_task_never_runs_twice_at_the_same_time() -> None:
    may_end, runs = threading.Event(), []

    def work() -> None:
        runs.append(1)
        may_end.wait(10)

    task = BackgroundTask(work, "slow")
    assert task.begin()
    assert not task.begin(), "the first is still under way"
    may_end.set()
    task.finish(10)
    assert task.begin()
    task.finish(10)
    assert len(runs) == 2


def test_an_error_is_raised_at_the_next_start() -> None:
    def work() -> None:
        raise EngineFault("it broke", retry_after_seconds=1)

    task = BackgroundTask(work, "broken")
    assert task.begin()
    task.finish(10)
    with pytest.raises(EngineFault, match="it broke"):
        task.begin()
    assert task.begin(), "it is raised once"
    task.finish(10)

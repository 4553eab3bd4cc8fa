"""How often Slurm should look for work, who is told so, and what is asked of it beside other work."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from bursar.cli.commands.operations.doctor_checks import DoctorCheck, slurm
from bursar.engines.slurm.commands.background import BackgroundTask
from bursar.engines.slurm.driven.pacing import EPILOG_LINE, QUICK_LINE, advice
from bursar.model.errors import EngineFault
from bursar.wiring.slurm.engine import pacing_note
from tests.support.slurm_lab import LabPlan
from tests.support.slurm_lab.conf import PLAIN_LINE, LabLocation, slurm_conf
from tests.support.slurm_lab.lab_spec import t4_nodes

QUICK = QUICK_LINE.partition("=")[2]
DONE = "/etc/slurm/epilog.sh"


def said_of(config: Mapping[str, str]) -> str:
    found = advice(config)
    return f"{found.found} {found.fix}" if found is not None else ""


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("(null)", ["batch_sched_delay is 3 s by default", "bf_interval is 30 s by default"]),
        ("", ["batch_sched_delay is 3 s by default", "bf_interval is 30 s by default"]),
        ("bf_interval=60,batch_sched_delay=0", ["bf_interval is 60 s."]),
        ("bf_continue,batch_sched_delay=10,bf_interval=1", ["batch_sched_delay is 10 s."]),
        ("bf_interval=soon,batch_sched_delay=0", ["bf_interval is 30 s"]),
    ],
)
def test_who_makes_jobs_wait_is_told_how_long_and_what_to_write(
    parameters: str, told: list[str]
) -> None:
    said = said_of({"SchedulerParameters": parameters, "Epilog": DONE})
    assert all(words in said for words in told)
    assert said.count(" is ") == 1 + len(told), "nothing else is said to be slow"
    assert said.endswith(QUICK_LINE)


def test_what_we_recommend_is_found_to_be_quick() -> None:
    settings = {"SchedulerParameters": QUICK, "Epilog": "/bin/true"}
    assert said_of(settings) == ""
    assert said_of({**settings, "SchedulerParameters": f"preempt_youngest_first,{QUICK}"}) == ""


def test_an_end_that_no_node_reports_is_worth_an_epilog() -> None:
    for unset in ({}, {"Epilog": "(null)", "PrologFlags": "Alloc"}):
        assert said_of({"SchedulerParameters": QUICK, **unset}).endswith(f": {EPILOG_LINE}")
    assert said_of({"SchedulerParameters": QUICK, "PrologFlags": "Alloc,Contain"}) == ""
    said = said_of({})
    assert QUICK_LINE in said and EPILOG_LINE in said


def scontrol_that(says: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "scontrol"
    program.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_an_operator_is_told_of_the_slurm_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "echo 'ClusterName             = lab'; echo 'SLURM_VERSION           = 22.05.8'; "
        "echo 'Epilog                  = /bin/true'; "
        "echo 'SchedulerParameters     = {}'"
    )
    scontrol_that(lines.format("bf_interval=5,batch_sched_delay=0"), tmp_path, monkeypatch)
    assert "bf_interval is 5 s" in pacing_note()
    (check,) = slurm()
    assert check.result == "warn" and check.fix.endswith(QUICK_LINE)
    assert check.found.startswith("cluster lab, Slurm 22.05.8. Slurm starts jobs only when")
    scontrol_that(lines.format(QUICK), tmp_path, monkeypatch)
    assert pacing_note() == ""
    assert list(slurm()) == [DoctorCheck("slurm", "ok", "cluster lab, Slurm 22.05.8", "")]


def test_a_slurm_that_does_not_answer_keeps_nobody_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol_that("echo 'Unable to contact slurm controller' >&2; exit 1", tmp_path, monkeypatch)
    assert pacing_note() == ""
    (check,) = slurm()
    assert check.result == "warn" and "Unable to contact slurm controller" in check.found


def test_the_doctor_says_nothing_of_slurm_where_its_commands_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(slurm()) == [] and pacing_note() == ""


@pytest.mark.parametrize(
    ("quick", "wanted"), [(True, [QUICK_LINE, EPILOG_LINE]), (False, [PLAIN_LINE])]
)
def test_a_lab_has_the_settings_that_its_plan_asks_for(quick: bool, wanted: list[str]) -> None:
    place = LabLocation(
        folder=Path("/lab"),
        host="here",
        user="somebody",
        controller_port=1,
        database_port=2,
        accounting_port=3,
        node_ports=(4,),
        password="",
    )
    lines = slurm_conf(LabPlan(nodes=t4_nodes(1), quick=quick), place).splitlines()
    assert [one for one in lines if one.startswith(("SchedulerParameters=", "Epilog="))] == wanted


# -- beside ------------------------------------------------------------------------------------------


def test_an_errand_keeps_nobody_waiting_and_is_never_run_twice_at_once() -> None:
    may_end, runs = threading.Event(), []

    def work() -> None:
        runs.append(1)
        may_end.wait(10)

    errand = BackgroundTask(work, "slow")
    assert errand.begin()
    assert not errand.begin(), "the first is still under way"
    may_end.set()
    errand.finish(10)
    assert errand.begin()
    errand.finish(10)
    assert len(runs) == 2


def test_what_goes_wrong_on_an_errand_is_raised_where_the_next_one_is_begun() -> None:
    def work() -> None:
        raise EngineFault("it broke", retry_after_seconds=1)

    errand = BackgroundTask(work, "broken")
    assert errand.begin()
    errand.finish(10)
    with pytest.raises(EngineFault, match="it broke"):
        errand.begin()
    assert errand.begin(), "it is told once"
    errand.finish(10)

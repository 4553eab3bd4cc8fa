"""How often Slurm should look for work, who is told so, and what is asked of it beside other work."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bursar.engines.slurm.errand import Errand
from bursar.engines.slurm.pacing import EPILOG_LINE, QUICK_LINE, advice
from bursar.model.errors import EngineFault
from bursar.testing.slurm_lab import LabPlan
from bursar.testing.slurm_lab.conf import PLAIN_LINE, Place, slurm_conf
from bursar.testing.slurm_lab.plan import t4_nodes
from bursar.wiring.slurm_engine import pacing_note

QUICK = QUICK_LINE.partition("=")[2]
DONE = "/etc/slurm/epilog.sh"


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
    said = advice({"SchedulerParameters": parameters, "Epilog": DONE})
    assert all(words in said for words in told)
    assert said.count(" is ") == 1 + len(told), "nothing else is said to be slow"
    assert said.endswith(QUICK_LINE)


def test_what_we_recommend_is_found_to_be_quick() -> None:
    settings = {"SchedulerParameters": QUICK, "Epilog": "/bin/true"}
    assert advice(settings) == ""
    assert advice({**settings, "SchedulerParameters": f"preempt_youngest_first,{QUICK}"}) == ""


def test_an_end_that_no_node_reports_is_worth_an_epilog() -> None:
    for unset in ({}, {"Epilog": "(null)", "PrologFlags": "Alloc"}):
        assert advice({"SchedulerParameters": QUICK, **unset}).endswith(f": {EPILOG_LINE}")
    assert advice({"SchedulerParameters": QUICK, "PrologFlags": "Alloc,Contain"}) == ""
    said = advice({})
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
        "echo 'ClusterName             = lab'; echo 'Epilog                  = /bin/true'; "
        "echo 'SchedulerParameters     = {}'"
    )
    scontrol_that(lines.format("bf_interval=5,batch_sched_delay=0"), tmp_path, monkeypatch)
    assert "bf_interval is 5 s" in pacing_note()
    scontrol_that(lines.format(QUICK), tmp_path, monkeypatch)
    assert pacing_note() == ""


def test_a_slurm_that_does_not_answer_keeps_nobody_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol_that("echo 'Unable to contact slurm controller' >&2; exit 1", tmp_path, monkeypatch)
    assert pacing_note() == ""


@pytest.mark.parametrize(
    ("quick", "wanted"), [(True, [QUICK_LINE, EPILOG_LINE]), (False, [PLAIN_LINE])]
)
def test_a_lab_has_the_settings_that_its_plan_asks_for(quick: bool, wanted: list[str]) -> None:
    place = Place(
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

    errand = Errand(work, "slow")
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

    errand = Errand(work, "broken")
    assert errand.begin()
    errand.finish(10)
    with pytest.raises(EngineFault, match="it broke"):
        errand.begin()
    assert errand.begin(), "it is told once"
    errand.finish(10)

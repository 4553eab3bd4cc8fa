"""``bursar chaos`` on a real control plane with real processes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.live import Live, live

SAVES = r"""
name: saves
run: |
  report() {
    echo "{\"kind\": \"$1\", \"step\": 7, \"total\": 56, \"at_ms\": $(date +%s%3N)}" >> "$BURSAR_SAVED_FILE"
  }
  trap 'report saved; exit 85' TERM
  [ "$BURSAR_ATTEMPT" = 1 ] || report resumed
  report progress
  while true; do sleep 0.05; done
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live")) as one:
        yield one


def shown(here: Live, job: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(here.admin.run("status", job, "--json").out)
    return found


def notice_on(here: Live, node: str) -> Any:
    """The notice of a node; None if there is none or the node is gone."""
    fleet = json.loads(here.admin.run("fleet", "show", "--json").out)
    return next((one["notice"] for one in fleet if one["id"] == node), None)


def until(condition: Callable[[], bool], description: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {description}"
        time.sleep(0.1)


def running(here: Live, attempt: int, job: str) -> Callable[[], bool]:
    def is_so() -> bool:
        now = shown(here, job)
        return bool(now["state"] == "running" and now["attempt"] == attempt)

    return is_so


@pytest.mark.thorough
def test_a_job_is_interrupted_with_a_notice_and_by_a_kill_and_goes_on(here: Live) -> None:
    path = Path(here.ada.folder) / "saves.yaml"
    path.write_text(SAVES, encoding="utf-8")
    job = here.ada.submit(str(path), "--queue", "vision")
    until(running(here, 1, job), "it runs")
    first = shown(here, job)["nodes"]
    ran = here.admin.run("chaos", "interrupt", job, "--notice", "20s", "--away", "1s")
    assert ran.code == 0, ran.err
    assert f"{first[0]} is removed in 20 s" in ran.out
    until(lambda: notice_on(here, first[0]) is not None, "the notice is shown")
    leaving = notice_on(here, first[0])
    assert (leaving["source"], leaving["kind"]) == ("chaos", "terminate")
    assert 0 < leaving["ends_at_ms"] - leaving["at_ms"] <= 20_000
    table = here.ada.run("fleet", "show").out
    assert re.search(rf"{first[0]} .* leaves (in \d+ s|now) \(chaos\)", table), table
    until(running(here, 2, job), "it runs again")
    now = shown(here, job)
    assert now["nodes"] != first, "on another node: the first is on its way out"
    assert (now["failures"], now["preemptions"]) == (0, 0)
    assert now["attempts"][0]["saved_step"] == 7
    assert (now["attempts"][0]["exit_code"], now["attempts"][0]["outcome"]) == (
        85,
        "AttemptPreempted",
    )
    until(lambda: shown(here, job)["recovered"] is True, "it has recovered")
    assert shown(here, job)["resumed_step"] == 7
    assert "recovered   yes: resumed from step 7" in here.ada.run("status", job).out
    until(lambda: shown(here, job)["progress"]["attempt"] == 2, "progress is reported")
    progress = shown(here, job)["progress"]
    assert (progress["step"], progress["total"], progress["permille"]) == (7, 56, 125)
    assert "progress    step 7 of 56 (12.5 %), " in here.ada.run("status", job).out
    assert "step 7 of 56" in here.ada.run("status", "-o", "wide").out
    until(lambda: notice_on(here, first[0]) is None, "the node is gone, and its notice with it")
    assert "spot notice" in here.ada.run("why", job).out
    killed = here.admin.run("chaos", "interrupt", job, "--kill", "--away", "1s", "--json")
    assert killed.json()["node"] == now["nodes"][0]
    until(running(here, 3, job), "it runs once more")
    assert shown(here, job)["attempts"][1]["outcome"] == "NodeLost"


def test_only_operators_interrupt(here: Live) -> None:
    job = here.ada.submit("--queue", "vision", "--", "sleep", "30")
    until(running(here, 1, job), "it runs")
    ran = here.ada.run("chaos", "interrupt", job)
    assert ran.code != 0 and "operate" in ran.err


def test_invalid_times_and_jobs_are_rejected(here: Live) -> None:
    ran = here.admin.run("chaos", "interrupt", "j-x", "--notice", "soon")
    assert ran.code == 2 and "30s" in ran.err
    ran = here.admin.run("chaos", "interrupt", "j-nothing")
    assert ran.code != 0 and "no job" in ran.err

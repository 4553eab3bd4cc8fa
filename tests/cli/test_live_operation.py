"""The fleet, its tenants, tokens and health, from the command line, on a real control plane."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.children import with_ctrl_c
from tests.cli.commands import BURSAR, environment
from tests.cli.live import FLEET, Live, Person, live

LISTS = (
    ("gpus",),
    ("gpus", "--each"),
    ("quota",),
    ("fair",),
    ("fleet", "show"),
    ("tenant", "list"),
    ("token", "list"),
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live")) as one:
        yield one


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_every_list_has_every_form(here: Live, words: tuple[str, ...]) -> None:
    plain = here.admin.run(*words, "--json")
    assert plain.code == 0, plain.err
    rows = plain.json()
    assert len(here.admin.run(*words, "-o", "csv").out.splitlines()) == len(rows) + 1
    for form in ("table", "wide", "yaml"):
        assert here.admin.run(*words, "-o", form).code == 0


def test_gpus_by_pool_and_one_by_one(here: Live) -> None:
    assert re.search(r"^t4 +t4-16gb +owned +2 +8 +8 +\$0\.35/h$", here.ada.run("gpus").out, re.M)
    job = here.ada.submit("--gpus", "1", "--", "sleep", "600")
    held = _until(lambda: _holder(here.ada, job))
    assert held == [(job, "vision")]
    assert _holder(here.bob, job) == []
    hidden = [row for row in here.bob.run("gpus", "--each", "--json").json() if row["holders"]]
    assert [row["holders"][0]["queue"] for row in hidden] == ["another tenant"]
    top = here.ada.run("top")
    assert "1 of 8 GPUs in use" in top.out and job in top.out
    assert "1 running job, $0.35/h" in top.out
    assert here.ada.run("top", "--json").json()["running"] == 1
    assert here.ada.run("cancel", job).code == 0


def _holder(person: Person, job: str) -> list[tuple[str, str]]:
    rows = person.run("gpus", "--each", "--json").json()
    holders = [holder for row in rows for holder in row["holders"] if holder["job_id"] == job]
    return [(one["job_id"], one["queue"]) for one in holders]


def _until(look: object) -> object:
    """Poll until the result is not empty."""
    give_up_at = time.monotonic() + 30
    while time.monotonic() < give_up_at:
        seen = look()  # type: ignore[operator]
        if seen:
            return seen
        time.sleep(0.05)
    return None


def test_tenants(here: Live) -> None:
    shown = here.ada.run("tenant", "show", "vision")
    assert shown.out.startswith("vision: queue of company, weight 2\n")
    assert here.ada.run("tenant", "show", "language").code == 3
    assert [row["name"] for row in here.ada.run("tenant", "list", "--json").json()] == ["vision"]


def test_who_am_i(here: Live) -> None:
    shown = here.ada.run("whoami")
    assert "user        ada" in shown.out and "role        member of vision" in shown.out
    stranger = Person(
        here.server, "bur_aaaaaaaaaaaaaaaa_" + "a" * 43, here.state, here.admin.folder
    )
    assert stranger.run("whoami").code == 4


def test_a_token_is_shown_once_and_ends_at_once(here: Live) -> None:
    words = ("--user", "eve", "--role", "viewer", "--tenant", "vision", "--expires", "1h")
    made = here.admin.run("token", "create", *words, "--scope", "jobs:read")
    token = made.out.strip()
    assert token.startswith("bur_") and "not shown again" in made.err
    eve = Person(here.server, token, here.state, here.admin.folder)
    assert eve.run("whoami", "--json").json()["permissions"] == ["jobs:read"]
    assert eve.run("submit", "--", "true").code == 4
    listed = here.admin.run("token", "list")
    assert token not in listed.out
    token_id = made.err.split()[1]
    assert here.admin.run("token", "revoke", token_id).code == 2
    assert here.admin.run("token", "revoke", token_id, types="n\n").code == 1
    assert here.admin.run("token", "revoke", token_id, "-y").code == 0
    assert eve.run("whoami").code == 4
    assert here.ada.run("token", "create", *words).code == 4
    assert (
        here.admin.run("token", "create", "--user", "x", "--role", "lead", "--expires", "soon").code
        == 2
    )


def test_the_fleet_is_planned_and_then_applied(here: Live, tmp_path: Path) -> None:
    same = tmp_path / "same.yaml"
    same.write_text(FLEET)
    planned = here.admin.run("fleet", "plan", same)
    assert (planned.code, planned.out) == (0, ""), planned.out
    assert "no changes" in planned.err
    more = tmp_path / "more.yaml"
    more.write_text(FLEET.replace("[n1, n2]", "[n1, n2, n3]").replace("weight: 2", "weight: 3"))
    planned = here.admin.run("fleet", "plan", more)
    assert "n3" in planned.out and "weight" in planned.out
    assert here.admin.run("fleet", "apply", more).code == 2
    assert here.admin.run("fleet", "apply", more, types="n\n").code == 1
    assert len(here.admin.run("fleet", "show", "--json").json()) == 2
    assert here.admin.run("fleet", "apply", more, types="y\n").code == 0
    assert len(here.admin.run("fleet", "show", "--json").json()) == 3
    assert here.admin.run("fleet", "apply", same, "-y").code == 0
    assert here.ada.run("fleet", "plan", more).code == 4
    assert here.admin.run("fleet", "plan", tmp_path / "none.yaml").code == 1


def test_a_fleet_file_with_a_mistake(here: Live, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(FLEET.replace("weight", "wieght"))
    ran = here.admin.run("fleet", "plan", path)
    assert ran.code == 2
    assert f"{path}:" in ran.err and "weight" in ran.err


def test_a_node_is_drained_and_restored(here: Live) -> None:
    assert here.admin.run("fleet", "drain", "n2").code == 0
    states = {row["id"]: row["is_open"] for row in here.admin.run("fleet", "show", "--json").json()}
    assert states == {"n1": True, "n2": False}
    assert here.admin.run("fleet", "restore", "n2").code == 0
    assert here.admin.run("fleet", "drain", "n9").code == 3
    assert here.ada.run("fleet", "drain", "n1").code == 4


def test_the_doctor_finds_no_failure(here: Live) -> None:
    ran = here.admin.run("doctor", "--rebuild", "--json")
    found = {row["check"]: row["result"] for row in ran.json()}
    assert ran.code == 0, ran.out
    for check in (
        "python",
        "state folder",
        "store: integrity",
        "server",
        "clock",
        "leader",
        "token",
        "rebuild",
        "audit",
    ):
        assert found[check] == "ok", ran.out
    assert {row["result"] for row in ran.json()} <= {"ok", "warn"}
    here.state.chmod(0o755)
    try:
        readable = here.admin.run("doctor")
    finally:
        here.state.chmod(0o700)
    assert readable.code == 1 and "chmod 700" in readable.out


def test_watching_continues_until_ctrl_c(here: Live) -> None:
    process = subprocess.Popen(
        [*BURSAR, "gpus", "--json", "--watch", "0.05"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "BURSAR_SERVER": here.server, "BURSAR_TOKEN": here.ada.token},
        preexec_fn=with_ctrl_c,
    )
    assert process.stdout is not None
    pictures = 0
    while pictures < 3:
        pictures += process.stdout.readline() == "]\n"
    os.kill(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=30)
    assert (process.returncode, messages) == (0, "")


def test_an_unreachable_server(here: Live, tmp_path: Path) -> None:
    away = ("--server", "http://127.0.0.1:1", "--timeout", "0.2")
    for words in (("status", *away), ("submit", *away, "--", "true"), ("top", *away)):
        ran = here.ada.run(*words)
        assert ran.code == 7, ran.err
        assert ran.err.startswith("error: no server answers at http://127.0.0.1:1")
    nowhere = Person("", "", tmp_path / "none", tmp_path)
    assert nowhere.run("status").code == 7
    ran = nowhere.run("doctor", "--json")
    assert ran.code == 1
    assert next(row for row in ran.json() if row["check"] == "server")["result"] == "fail"


def test_an_unencrypted_token_is_warned_about(here: Live) -> None:
    ran = here.ada.run("whoami", "--server", "http://192.0.2.1:9", "--timeout", "0.1")
    assert ran.code in (7, 8)
    assert ran.err.startswith("warning: the token is sent to http://192.0.2.1:9 unencrypted")


def test_output_for_programs_is_alone_on_standard_output(here: Live) -> None:
    made = here.ada.run("submit", "--json", "--wait", "--", "true")
    assert json.loads(made.out)["id"] in made.err

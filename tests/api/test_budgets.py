"""Budgets over HTTP: where they stand, who sees them, and what a plan and a submission are told."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from bursar.cli import main as cli
from tests.api.asking import job
from tests.api.scene import FLEET, Scene, open_scene

BUDGETED = FLEET.replace(
    "      team-a:\n", "      team-a:\n        budget: {usd: 2, enforcement: hard, period: week}\n"
).replace("      team-b:\n", "      team-b:\n        budget: 500\n")
ONE = {"accelerators": "T4:1"}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with open_scene(tmp_path_factory.mktemp("state"), BUDGETED) as opened:
        yield opened


def test_each_sees_his_own_budgets(scene: Scene) -> None:
    assert [one["tenant"] for one in scene.ann.get("/v1/budgets").json["items"]] == ["team-a"]
    assert [one["tenant"] for one in scene.bob.get("/v1/budgets").json["items"]] == ["team-b"]
    both = scene.admin.get("/v1/budgets").json["items"]
    assert [(one["tenant"], one["amount_micro_usd"]) for one in both] == [
        ("team-a", 2_000_000),
        ("team-b", 500_000_000),
    ]


def test_what_is_held_is_shown_and_too_much_is_refused_with_the_numbers(scene: Scene) -> None:
    first = scene.ann.submit("a-train", resources=ONE, max_hours=3)
    (row,) = scene.ann.get("/v1/budgets").json["items"]
    assert 1_200_000 < row["held_micro_usd"] + row["spent_micro_usd"] < 1_250_000
    held = row["held_micro_usd"] + row["spent_micro_usd"]
    assert row["left_micro_usd"] == 2_000_000 - held
    second = job("a-train", resources=ONE, max_hours=3)
    planned = scene.ann.post("/v1/plan", second).json
    assert not planned["feasible"]
    assert [one["code"] for one in planned["problems"]] == ["over-budget"]
    refused = scene.ann.post("/v1/jobs", second)
    assert (refused.status, refused.code) == (422, "over-budget")
    assert "$2.00 a week" in refused.json["detail"]
    scene.ann.post(f"/v1/jobs/{first}:cancel", {})
    scene.until_state(first, "cancelled")
    scene.ann.submit("a-train", resources=ONE, max_hours=3)


def test_a_job_without_a_limit_is_told_to_have_one(scene: Scene) -> None:
    refused = scene.ann.post("/v1/jobs", job("a-dev", resources=ONE))
    assert (refused.status, refused.code) == (422, "needs-a-limit")
    assert "max_hours or max_cost" in refused.json["fix"]
    assert scene.bob.post("/v1/jobs", job("b-train", resources=ONE)).status == 201


def test_the_command_line_lists_them(scene: Scene) -> None:
    server = f"http://127.0.0.1:{scene.served.port}"
    words = ["budget", "--server", server, "--token", scene.tokens["admin"], "-o", "wide"]
    out = io.StringIO()
    with redirect_stdout(out):
        assert cli.run(words) == 0
    told = out.getvalue()
    assert "$500.00 a month" in told and "$2.00 a week" in told and "hard" in told


ABOVE = FLEET.replace("  acme:\n", "  acme:\n    budget: {usd: 1, enforcement: hard}\n", 1)


def test_who_sees_a_part_is_not_told_what_all_have_spent(tmp_path: Path) -> None:
    with open_scene(tmp_path, ABOVE) as scene:
        document = job("a-train", resources=ONE, max_hours=30)
        told = scene.ann.post("/v1/jobs", document).json
        assert told["code"] == "over-budget"
        assert "the budget of acme, above your own, has less left" in told["detail"]
        assert "$1.00" not in told["detail"]
        planned = scene.ann.post("/v1/plan", document).json
        assert "$1.00" not in planned["problems"][0]["text"]
        assert "$1.00 a month" in scene.admin.post("/v1/jobs", document).json["detail"]
        assert scene.ann.get("/v1/budgets").json["items"] == []

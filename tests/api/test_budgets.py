"""Budgets over HTTP: their status, who may see them, and what plans and submissions report."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from bursar.cli import main as cli
from tests.api.harness import FLEET, ApiHarness, open_harness
from tests.api.http_client import job

BUDGETED = FLEET.replace(
    "      team-a:\n", "      team-a:\n        budget: {usd: 2, enforcement: hard, period: week}\n"
).replace("      team-b:\n", "      team-b:\n        budget: 500\n")
ONE_GPU = {"accelerators": "T4:1"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHarness]:
    with open_harness(tmp_path_factory.mktemp("state"), BUDGETED) as opened:
        yield opened


def test_users_see_the_budgets_of_their_tenants(api: ApiHarness) -> None:
    assert [one["tenant"] for one in api.ann.get("/v1/budgets").json["items"]] == ["team-a"]
    assert [one["tenant"] for one in api.bob.get("/v1/budgets").json["items"]] == ["team-b"]
    both = api.admin.get("/v1/budgets").json["items"]
    assert [(one["tenant"], one["amount_micro_usd"]) for one in both] == [
        ("team-a", 2_000_000),
        ("team-b", 500_000_000),
    ]


def test_reserved_amounts_are_shown_and_jobs_over_budget_rejected(api: ApiHarness) -> None:
    first = api.ann.submit("a-train", resources=ONE_GPU, max_hours=3)
    (row,) = api.ann.get("/v1/budgets").json["items"]
    assert 1_200_000 < row["held_micro_usd"] + row["spent_micro_usd"] < 1_250_000
    held = row["held_micro_usd"] + row["spent_micro_usd"]
    assert row["left_micro_usd"] == 2_000_000 - held
    second = job("a-train", resources=ONE_GPU, max_hours=3)
    planned = api.ann.post("/v1/plan", second).json
    assert not planned["feasible"]
    assert [one["code"] for one in planned["problems"]] == ["over-budget"]
    refused = api.ann.post("/v1/jobs", second)
    assert (refused.status, refused.code) == (422, "over-budget")
    assert "$2.00 a week" in refused.json["detail"]
    api.ann.post(f"/v1/jobs/{first}:cancel", {})
    api.wait_for_state(first, "cancelled")
    api.ann.submit("a-train", resources=ONE_GPU, max_hours=3)


def test_a_hard_budget_requires_a_cost_limit(api: ApiHarness) -> None:
    refused = api.ann.post("/v1/jobs", job("a-dev", resources=ONE_GPU))
    assert (refused.status, refused.code) == (422, "needs-a-limit")
    assert "max_hours or max_cost" in refused.json["fix"]
    assert api.bob.post("/v1/jobs", job("b-train", resources=ONE_GPU)).status == 201


def test_the_command_line_lists_budgets(api: ApiHarness) -> None:
    server = f"http://127.0.0.1:{api.server.port}"
    arguments = ["budget", "--server", server, "--token", api.tokens["admin"], "-o", "wide"]
    out = io.StringIO()
    with redirect_stdout(out):
        assert cli.run(arguments) == 0
    table = out.getvalue()
    assert "$500.00 a month" in table and "$2.00 a week" in table and "hard" in table


PARENT_BUDGETED = FLEET.replace(
    "  acme:\n", "  acme:\n    budget: {usd: 1, enforcement: hard}\n", 1
)


def test_amounts_of_a_parent_budget_are_hidden(tmp_path: Path) -> None:
    with open_harness(tmp_path, PARENT_BUDGETED) as api:
        document = job("a-train", resources=ONE_GPU, max_hours=30)
        body = api.ann.post("/v1/jobs", document).json
        assert body["code"] == "over-budget"
        assert "the budget of acme, above your own, has less left" in body["detail"]
        assert "$1.00" not in body["detail"]
        planned = api.ann.post("/v1/plan", document).json
        assert "$1.00" not in planned["problems"][0]["text"]
        assert "$1.00 a month" in api.admin.post("/v1/jobs", document).json["detail"]
        assert api.ann.get("/v1/budgets").json["items"] == []

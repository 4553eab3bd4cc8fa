"""Explanations over HTTP: the history of a job and its price."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.harness import FLEET, ApiHarness, open_harness
from tests.api.http_client import HttpClient, job

RECLAIMING = FLEET.replace(
    "b-train: {quotas: {t4/owned: 2}}",
    "b-train: {quotas: {t4/owned: 2}, preemption: {reclaim: any}}",
)
IMMEDIATELY = f"{RECLAIMING}\npolicies:\n  preemption: {{minimum_run: 0 s}}\n"
ALL = {"accelerators": "T4:4"}
HALF = {"accelerators": "T4:2"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHarness]:
    with open_harness(tmp_path_factory.mktemp("state"), IMMEDIATELY) as opened:
        yield opened


def why(client: HttpClient, job_id: str) -> Any:
    response = client.get(f"/v1/jobs/{job_id}/why")
    assert response.status == 200, response.body
    return response.json


def test_a_preempted_job_shows_the_preemptor_and_the_lost_work(api: ApiHarness) -> None:
    victim = api.ann.submit("a-train", resources=ALL)
    api.wait_for_state(victim, "running")
    preemptor = api.bob.submit("b-train", resources=HALF)
    api.wait_for_state(preemptor, "running")
    api.wait_for_state(victim, "queued")
    body = why(api.admin, victim)
    (preemption,) = body["history"]
    assert (preemption["type"], preemption["attempt"]) == ("PastPreemption", 1)
    assert preemption["numbers"]["on_behalf_of"] == preemptor
    assert preemption["numbers"]["queue"] == "b-train"
    assert preemption["numbers"]["why"] == "reclaim"
    assert preemption["numbers"]["lost_micro_usd"] >= 0
    line = body["text"][-1]
    assert line.startswith("History: ")
    assert f"was preempted for {preemptor} of b-train: its team reclaimed borrowed quota" in line
    assert "of unsaved work was lost" in line
    # The name of another tenant's job is hidden, while it runs and after it has ended.
    for _ in range(2):
        hidden = api.ann.get(f"/v1/jobs/{victim}/why")
        assert preemptor.encode() not in hidden.body and b"b-train" not in hidden.body
        assert "was preempted for a job of another tenant" in hidden.json["text"][-1]
        if api.plane.reader.job(preemptor).state == "running":  # type: ignore[union-attr]
            api.engine.end(preemptor)
            api.wait_for_state(preemptor, "succeeded")
    assert preemptor in why(api.admin, victim)["text"][-1]
    api.ann.post(f"/v1/jobs/{victim}:cancel")
    api.wait_for_state(victim, "cancelled")


def test_a_failed_job_shows_the_exit_code_of_each_attempt(api: ApiHarness) -> None:
    job_id = api.ann.submit("a-train", retries=1)
    for code in (3, 4):
        api.wait_for_state(job_id, "running")
        api.engine.end(job_id, code=code)
        api.wait_until(
            lambda: api.plane.reader.job(job_id).failures == code - 2,  # type: ignore[union-attr] # noqa: B023
            "it failed",
        )
    body = why(api.ann, job_id)
    assert body["state"] == "failed"
    assert [one["numbers"]["exit_code"] for one in body["history"]] == [3, 4]


def test_a_job_stopped_at_its_cost_ceiling_shows_it(api: ApiHarness) -> None:
    job_id = api.ann.submit("a-train", resources=HALF, max_cost=0.0001)
    api.wait_for_state(job_id, "failed")
    shown = api.ann.get(f"/v1/jobs/{job_id}").json
    assert shown["exit_detail"].startswith(
        "reached its cost ceiling (max_cost) of $0.0001: charged"
    )
    body = why(api.ann, job_id)
    assert [one["type"] for one in body["history"]] == ["PastLimit"]
    assert body["history"][0]["numbers"]["charged_micro_usd"] >= 49
    assert "reached the job's cost ceiling (max_cost): charged $0.000" in body["text"][-1]
    events = api.ann.get(f"/v1/jobs/{job_id}/events").json["items"]
    expired = next(one for one in events if one["type"] == "AttemptExpired")
    assert expired["detail"]["why"] == "cost-limit"


# -- prices --------------------------------------------------------------------------------------------


def test_a_waiting_job_shows_its_hourly_price(api: ApiHarness) -> None:
    first = api.bob.submit("b-train", resources=HALF)
    api.wait_for_state(first, "running")
    waiting = api.bob.submit("b-train", resources=ALL, name="waiting")
    api.wait_until(
        lambda: (
            [
                one["micro_usd_per_hour"]
                for one in api.bob.get("/v1/queue").json["items"]
                if one["id"] == waiting
            ]
            == [1_600_000]
        ),
        "the queue has its price",
    )
    body = why(api.bob, waiting)
    assert body["micro_usd_per_hour"] == 1_600_000
    assert "Price: from $1.60 an hour once it runs." in body["text"]
    planned = api.bob.post("/v1/plan", job("b-train", resources=ALL, expected_hours=2)).json
    assert planned["placement"] is None
    assert planned["cost"]["micro_usd_per_hour"] == 1_600_000
    assert planned["cost"]["expected_micro_usd"] == 3_200_000
    for job_id in (first, waiting):
        api.bob.post(f"/v1/jobs/{job_id}:cancel")
        api.wait_for_state(job_id, "cancelled")


@pytest.mark.parametrize(
    ("terms", "warning"),
    [
        ({"max_cost": 1, "expected_hours": 1}, ""),
        ({"max_cost": 1, "max_hours": 2}, ""),
        ({"expected_hours": 9}, ""),
        (
            {"max_cost": 1, "expected_hours": 4},
            "max_cost of $1.00 pays for 2 h 30 min at $0.40 an hour, including the time to stop. "
            "The job is expected to cost $1.60: raise max_cost.",
        ),
        (
            {"max_cost": 1},
            "max_cost of $1.00 pays for 2 h 30 min at $0.40 an hour, including the time to stop; "
            "then the job is stopped.",
        ),
    ],
)
def test_a_plan_warns_of_a_ceiling_that_is_too_low(
    api: ApiHarness, terms: dict[str, Any], warning: str
) -> None:
    body = api.ann.post("/v1/plan", job("a-train", **terms)).json
    assert body["feasible"] is True
    assert body["warnings"] == ([warning] if warning else [])
    cost = body["cost"]
    limits = [terms["max_hours"] * cost["micro_usd_per_hour"]] if "max_hours" in terms else []
    limits += [terms["max_cost"] * 1_000_000] if "max_cost" in terms else []
    assert cost["max_micro_usd"] == (min(limits) if limits else None)


def test_a_cost_ceiling_of_zero_is_rejected(api: ApiHarness) -> None:
    response = api.ann.post("/v1/jobs", job("a-train", max_cost=0))
    assert response.status == 422 and "max_cost" in response.json["detail"] + response.json["fix"]

"""What a job's people are told of what befell it, and of what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.asking import Asker, job
from tests.api.scene import FLEET, Scene, open_scene

TAKES_BACK = FLEET.replace(
    "b-train: {quotas: {t4/owned: 2}}",
    "b-train: {quotas: {t4/owned: 2}, preemption: {reclaim: any}}",
)
AT_ONCE = f"{TAKES_BACK}\npolicies:\n  preemption: {{minimum_run: 0 s}}\n"
ALL = {"accelerators": "T4:4"}
HALF = {"accelerators": "T4:2"}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with open_scene(tmp_path_factory.mktemp("state"), AT_ONCE) as opened:
        yield opened


def why(who: Asker, job_id: str) -> Any:
    told = who.get(f"/v1/jobs/{job_id}/why")
    assert told.status == 200, told.body
    return told.json


def test_a_preempted_job_says_who_took_its_place_and_what_was_lost(scene: Scene) -> None:
    victim = scene.ann.submit("a-train", resources=ALL)
    scene.until_state(victim, "running")
    taker = scene.bob.submit("b-train", resources=HALF)
    scene.until_state(taker, "running")
    scene.until_state(victim, "queued")
    told = why(scene.admin, victim)
    (past,) = told["history"]
    assert (past["type"], past["attempt"]) == ("PastPreemption", 1)
    assert past["numbers"]["on_behalf_of"] == taker
    assert past["numbers"]["queue"] == "b-train"
    assert past["numbers"]["why"] == "reclaim"
    assert past["numbers"]["lost_micro_usd"] >= 0
    line = told["text"][-1]
    assert line.startswith("History: ")
    assert f"was preempted for {taker} of b-train: its team reclaimed borrowed quota" in line
    assert "of unsaved work was lost" in line
    # Another tenant's job has no name, now and when it is over.
    for _ in range(2):
        hidden = scene.ann.get(f"/v1/jobs/{victim}/why")
        assert taker.encode() not in hidden.body and b"b-train" not in hidden.body
        assert "was preempted for a job of another tenant" in hidden.json["text"][-1]
        if scene.plane.reader.job(taker).state == "running":  # type: ignore[union-attr]
            scene.engine.end(taker)
            scene.until_state(taker, "succeeded")
    assert taker in why(scene.admin, victim)["text"][-1]
    scene.ann.post(f"/v1/jobs/{victim}:cancel")
    scene.until_state(victim, "cancelled")


def test_a_failed_job_says_how_each_attempt_ended(scene: Scene) -> None:
    job_id = scene.ann.submit("a-train", retries=1)
    for code in (3, 4):
        scene.until_state(job_id, "running")
        scene.engine.end(job_id, code=code)
        scene.until(
            lambda: scene.plane.reader.job(job_id).failures == code - 2,  # type: ignore[union-attr] # noqa: B023
            "it failed",
        )
    told = why(scene.ann, job_id)
    assert told["state"] == "failed"
    assert [one["numbers"]["exit_code"] for one in told["history"]] == [3, 4]


def test_a_job_that_reached_its_ceiling_says_so(scene: Scene) -> None:
    job_id = scene.ann.submit("a-train", resources=HALF, max_cost=0.0001)
    scene.until_state(job_id, "failed")
    shown = scene.ann.get(f"/v1/jobs/{job_id}").json
    assert shown["exit_detail"].startswith(
        "reached its cost ceiling (max_cost) of $0.0001: charged"
    )
    told = why(scene.ann, job_id)
    assert [one["type"] for one in told["history"]] == ["PastLimit"]
    assert told["history"][0]["numbers"]["charged_micro_usd"] >= 49
    assert "reached the job's cost ceiling (max_cost): charged $0.000" in told["text"][-1]
    events = scene.ann.get(f"/v1/jobs/{job_id}/events").json["items"]
    expired = next(one for one in events if one["type"] == "AttemptExpired")
    assert expired["detail"]["why"] == "cost-limit"


# -- prices --------------------------------------------------------------------------------------------


def test_who_waits_is_told_what_an_hour_would_cost(scene: Scene) -> None:
    first = scene.bob.submit("b-train", resources=HALF)
    scene.until_state(first, "running")
    waits = scene.bob.submit("b-train", resources=ALL, name="waits")
    scene.until(
        lambda: (
            [
                one["micro_usd_per_hour"]
                for one in scene.bob.get("/v1/queue").json["items"]
                if one["id"] == waits
            ]
            == [1_600_000]
        ),
        "the queue has its price",
    )
    told = why(scene.bob, waits)
    assert told["micro_usd_per_hour"] == 1_600_000
    assert "Price: from $1.60 an hour once it runs." in told["text"]
    planned = scene.bob.post("/v1/plan", job("b-train", resources=ALL, expected_hours=2)).json
    assert planned["placement"] is None
    assert planned["cost"]["micro_usd_per_hour"] == 1_600_000
    assert planned["cost"]["expected_micro_usd"] == 3_200_000
    for job_id in (first, waits):
        scene.bob.post(f"/v1/jobs/{job_id}:cancel")
        scene.until_state(job_id, "cancelled")


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
    scene: Scene, terms: dict[str, Any], warning: str
) -> None:
    told = scene.ann.post("/v1/plan", job("a-train", **terms)).json
    assert told["feasible"] is True
    assert told["warnings"] == ([warning] if warning else [])
    cost = told["cost"]
    limits = [terms["max_hours"] * cost["micro_usd_per_hour"]] if "max_hours" in terms else []
    limits += [terms["max_cost"] * 1_000_000] if "max_cost" in terms else []
    assert cost["max_micro_usd"] == (min(limits) if limits else None)


def test_a_ceiling_of_nothing_is_refused(scene: Scene) -> None:
    told = scene.ann.post("/v1/jobs", job("a-train", max_cost=0))
    assert told.status == 422 and "max_cost" in told.json["detail"] + told.json["fix"]

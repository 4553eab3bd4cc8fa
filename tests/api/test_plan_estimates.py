"""Cost estimates of plans: from the user's estimate or from the history of the queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bursar.control.requests.price_requests import ChangePrices
from bursar.model.event import PriceChanged
from bursar.model.units import HOUR_MS
from tests.api.cost_history import write_history
from tests.api.harness import ApiHarness, open_harness
from tests.api.http_client import TIMEOUT_SECONDS, HttpClient, job

USD = 1_000_000
A100 = {"accelerators": "A100-80GB:4"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHarness]:
    folder = tmp_path_factory.mktemp("state")
    write_history(folder)
    with open_harness(folder) as api:
        yield api


def plan_job(client: HttpClient, queue: str, **more: Any) -> Any:
    response = client.post("/v1/plan", job(queue, **more))
    assert response.status == 200, response.body
    assert response.json["feasible"], response.json
    return response.json


def estimate_for(plan: Any, pool: str) -> Any:
    return next(row for row in plan["estimates"] if row["pool"] == pool)


def test_the_users_estimate_is_used(api: ApiHarness) -> None:
    plan = plan_job(api.ann, "a-train", resources=A100, expected_hours=2, max_hours=5)
    estimate = estimate_for(plan, "a100")
    assert (estimate["p50_micro_usd"], estimate["p90_micro_usd"]) == (16 * USD, 40 * USD)
    assert (estimate["p50_ms"], estimate["p90_ms"]) == (2 * HOUR_MS, 5 * HOUR_MS)
    assert estimate["is_allowed"] and estimate["market"] == "owned" and not estimate["reason"]
    assert plan["estimates_note"].startswith("expected to run 2 h")


def test_without_an_estimate_the_history_of_the_queue_is_used(api: ApiHarness) -> None:
    """14 jobs of ann named pretrain took 12 hours each on 4 GPUs."""
    plan = plan_job(api.ann, "a-train", name="pretrain", resources=A100)
    estimate = estimate_for(plan, "a100")
    assert (estimate["p50_micro_usd"], estimate["p90_micro_usd"]) == (96 * USD, 96 * USD)
    assert "14 jobs" in plan["estimates_note"] and "12 h" in plan["estimates_note"]
    limited = plan_job(api.ann, "a-train", name="pretrain", resources=A100, max_hours=3)
    assert estimate_for(limited, "a100")["p90_micro_usd"] == 24 * USD


def test_the_history_of_another_queue_is_not_used(api: ApiHarness) -> None:
    plan = plan_job(api.ann, "a-dev", name="pretrain", resources=A100)
    assert plan["estimates"] == [] and "expected_hours" in plan["estimates_note"]
    limit = plan_job(api.ann, "a-dev", resources=A100, max_hours=3)
    assert estimate_for(limit, "a100")["p50_micro_usd"] == 24 * USD
    assert "may run 3 h" in limit["estimates_note"]


def test_markets_that_the_job_does_not_allow_are_marked(api: ApiHarness) -> None:
    any_gpu = {"accelerators": {"T4": 4, "A100-80GB": 4}}
    plan = plan_job(api.ann, "a-train", resources=any_gpu, expected_hours=100, max_hours=100)
    spot, owned = estimate_for(plan, "t4"), estimate_for(plan, "a100")
    assert owned["is_allowed"] and not spot["is_allowed"]
    assert [row["pool"] for row in plan["estimates"]] == ["t4", "a100"]
    assert spot["p50_micro_usd"] == 160 * USD < spot["p90_micro_usd"]
    assert "an interruption every" in spot["basis"]
    assert any("price history" in warning for warning in spot["warnings"])


def test_an_array_costs_as_much_as_its_members(api: ApiHarness) -> None:
    plan = plan_job(api.ann, "a-train", resources=A100, expected_hours=1, max_hours=1, array=3)
    assert estimate_for(plan, "a100")["p50_micro_usd"] == 3 * 8 * USD


def test_a_changed_spot_price_widens_the_estimate(api: ApiHarness) -> None:
    for price in (3_000_000, 1_600_000):
        change = PriceChanged(at_ms=0, pool="t4", node_micro_usd_per_hour=price)
        assert api.plane.send(ChangePrices(changes=[change])).result(TIMEOUT_SECONDS)
    spot_t4 = {"accelerators": "T4:4", "use_spot": True}
    plan = plan_job(api.bob, "b-train", resources=spot_t4, expected_hours=1, max_hours=1)
    estimate = estimate_for(plan, "t4")
    assert "prices of" in estimate["basis"] and "$3.00" in estimate["basis"]
    unchanged = [PriceChanged(at_ms=0, pool="t4", node_micro_usd_per_hour=1_600_000)]
    unknown = [PriceChanged(at_ms=0, pool="h100", node_micro_usd_per_hour=1)]
    for changes in (unchanged, unknown):
        assert api.plane.send(ChangePrices(changes=changes)).result(TIMEOUT_SECONDS) == ()


def test_a_rejected_job_has_no_estimate(api: ApiHarness) -> None:
    response = api.ann.post("/v1/plan", job("a-train", resources={"accelerators": "A100-80GB:9"}))
    assert response.json["problems"] and response.json["estimates"] == []

"""What a job would cost, before it is submitted: from what its user says, or from his queue's own past."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bursar.control.requests.price_requests import ChangePrices
from bursar.model.event import PriceChanged
from bursar.model.units import HOUR_MS
from tests.api.asking import PATIENCE_SECONDS, Asker, job
from tests.api.cost_history import write_history
from tests.api.scene import Scene, open_scene

USD = 1_000_000
A100 = {"accelerators": "A100-80GB:4"}


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("state")
    write_history(folder)
    with open_scene(folder) as scene:
        yield scene


def planned(asker: Asker, queue: str, **more: Any) -> Any:
    told = asker.post("/v1/plan", job(queue, **more))
    assert told.status == 200, told.body
    assert told.json["feasible"], told.json
    return told.json


def one(plan: Any, pool: str) -> Any:
    return next(found for found in plan["estimates"] if found["pool"] == pool)


def test_what_the_user_expects_is_what_is_taken(past: Scene) -> None:
    plan = planned(past.ann, "a-train", resources=A100, expected_hours=2, max_hours=5)
    found = one(plan, "a100")
    assert (found["p50_micro_usd"], found["p90_micro_usd"]) == (16 * USD, 40 * USD)
    assert (found["p50_ms"], found["p90_ms"]) == (2 * HOUR_MS, 5 * HOUR_MS)
    assert found["is_allowed"] and found["market"] == "owned" and not found["reason"]
    assert plan["estimates_note"].startswith("expected to run 2 h")


def test_without_a_word_the_queues_own_past_is_taken(past: Scene) -> None:
    """Fourteen jobs of Ann's named pretrain took 12 hours each on four GPUs."""
    plan = planned(past.ann, "a-train", name="pretrain", resources=A100)
    found = one(plan, "a100")
    assert (found["p50_micro_usd"], found["p90_micro_usd"]) == (96 * USD, 96 * USD)
    assert "14 jobs" in plan["estimates_note"] and "12 h" in plan["estimates_note"]
    limited = planned(past.ann, "a-train", name="pretrain", resources=A100, max_hours=3)
    assert one(limited, "a100")["p90_micro_usd"] == 24 * USD


def test_another_queues_past_tells_nothing(past: Scene) -> None:
    plan = planned(past.ann, "a-dev", name="pretrain", resources=A100)
    assert plan["estimates"] == [] and "expected_hours" in plan["estimates_note"]
    limit = planned(past.ann, "a-dev", resources=A100, max_hours=3)
    assert one(limit, "a100")["p50_micro_usd"] == 24 * USD
    assert "may run 3 h" in limit["estimates_note"]


def test_markets_that_the_job_does_not_ask_for_are_shown_as_such(past: Scene) -> None:
    any_gpu = {"accelerators": {"T4": 4, "A100-80GB": 4}}
    plan = planned(past.ann, "a-train", resources=any_gpu, expected_hours=100, max_hours=100)
    spot, owned = one(plan, "t4"), one(plan, "a100")
    assert owned["is_allowed"] and not spot["is_allowed"]
    assert [found["pool"] for found in plan["estimates"]] == ["t4", "a100"]
    assert spot["p50_micro_usd"] == 160 * USD < spot["p90_micro_usd"]
    assert "an interruption every" in spot["basis"]
    assert any("price history" in warning for warning in spot["warnings"])


def test_an_array_costs_what_its_members_do(past: Scene) -> None:
    plan = planned(past.ann, "a-train", resources=A100, expected_hours=1, max_hours=1, array=3)
    assert one(plan, "a100")["p50_micro_usd"] == 3 * 8 * USD


def test_a_spot_price_that_moved_is_in_the_band(past: Scene) -> None:
    for price in (3_000_000, 1_600_000):
        change = PriceChanged(at_ms=0, pool="t4", node_micro_usd_per_hour=price)
        assert past.plane.send(ChangePrices(changes=[change])).result(PATIENCE_SECONDS)
    spot_t4 = {"accelerators": "T4:4", "use_spot": True}
    plan = planned(past.bob, "b-train", resources=spot_t4, expected_hours=1, max_hours=1)
    found = one(plan, "t4")
    assert "prices of" in found["basis"] and "$3.00" in found["basis"]
    unchanged = [PriceChanged(at_ms=0, pool="t4", node_micro_usd_per_hour=1_600_000)]
    gone = [PriceChanged(at_ms=0, pool="h100", node_micro_usd_per_hour=1)]
    for changes in (unchanged, gone):
        assert past.plane.send(ChangePrices(changes=changes)).result(PATIENCE_SECONDS) == ()


def test_a_job_that_is_refused_has_no_estimate(past: Scene) -> None:
    told = past.ann.post("/v1/plan", job("a-train", resources={"accelerators": "A100-80GB:9"}))
    assert told.json["problems"] and told.json["estimates"] == []

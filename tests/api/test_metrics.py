"""What Prometheus scrapes: read back with its own parser, each tenant's rows for those who see him."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.asking import Asker
from tests.api.scene import FLEET, Scene, open_scene

BUDGETED = FLEET.replace(
    "a-dev: {}", "a-dev: {budget: {usd: 100, period: month, enforcement: hard}}"
).replace("usd_per_node_hour: 1.60", "usd_per_node_hour: 360")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with open_scene(tmp_path, BUDGETED) as one:
        yield one


class Figures(dict[tuple[str, frozenset[str]], float]):
    """By name and the values of labels, which have no order."""

    def of(self, name: str, *labels: str) -> float:
        return self[name, frozenset(labels)]


def figures(asker: Asker) -> Figures:
    told = asker.get("/metrics")
    assert told.status == 200
    assert told.headers["content-type"].startswith("text/plain; version=")
    return Figures(
        ((sample.name, frozenset(sample.labels.values())), sample.value)
        for family in text_string_to_metric_families(told.body.decode())
        for sample in family.samples
    )


def test_money_jobs_and_the_fleet_in_figures(scene: Scene) -> None:
    ann = scene.asker("ann")
    job = ann.submit("a-dev", resources={"accelerators": "T4:2"}, max_cost=40)
    scene.until_state(job, "running")
    time.sleep(0.2)
    found = figures(scene.asker("admin"))
    hard = ("a-dev", "month", "hard")
    assert found.of("bursar_budget_amount_dollars", *hard) == 100
    spent = found.of("bursar_budget_spent_dollars", *hard)
    assert 0 < spent < 40
    committed = spent + found.of("bursar_budget_held_dollars", *hard)
    assert committed >= 40, "what it may cost at most, and what stopping it may take"
    assert found.of("bursar_budget_left_dollars", *hard) == pytest.approx(100 - committed)
    assert found.of("bursar_budget_rate_dollars_per_hour", "a-dev") == 180
    assert found.of("bursar_cost_month_dollars", "a-dev", "usage") == pytest.approx(spent)
    assert found.of("bursar_pool_idle_dollars_per_hour", "t4") == 180
    assert (found.of("bursar_pool_gpus", "t4"), found.of("bursar_pool_gpus_held", "t4")) == (4, 2)
    assert found.of("bursar_jobs_live", "a-dev") == 1
    assert found.of("bursar_leader") == 1
    spread = [
        value
        for (name, labels), value in found.items()
        if name == "bursar_pool_month_dollars" and "capacity" not in labels
    ]
    assert found.of("bursar_pool_month_dollars", "t4", "capacity") == pytest.approx(sum(spread))


def test_a_tenant_sees_its_own_rows_and_nothing_of_the_fleet(scene: Scene) -> None:
    job = scene.asker("ann").submit("a-dev", resources={"accelerators": "T4:1"}, max_cost=40)
    scene.until_state(job, "running")
    own, other = figures(scene.asker("ann")), figures(scene.asker("bob"))
    assert own.of("bursar_budget_amount_dollars", "a-dev", "month", "hard") == 100
    assert not any("a-dev" in labels for _, labels in other)
    of_the_fleet = ("bursar_pool", "bursar_leader")
    assert not any(name.startswith(of_the_fleet) for name, _ in (*own, *other))


def test_strangers_see_nothing(scene: Scene) -> None:
    assert scene.asker().get("/metrics").status == 401

"""Metrics, read back with the Prometheus parser; callers get the tenants that they may see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.harness import FLEET, ApiHarness, open_harness
from tests.api.http_client import HttpClient

BUDGETED = FLEET.replace(
    "a-dev: {}", "a-dev: {budget: {usd: 100, period: month, enforcement: hard}}"
).replace("usd_per_node_hour: 1.60", "usd_per_node_hour: 360")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiHarness]:
    with open_harness(tmp_path, BUDGETED) as one:
        yield one


class Samples(dict[tuple[str, frozenset[str]], float]):
    """Values by name and unordered label values."""

    def of(self, name: str, *labels: str) -> float:
        return self[name, frozenset(labels)]


def scrape(client: HttpClient) -> Samples:
    response = client.get("/metrics")
    assert response.status == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    return Samples(
        ((sample.name, frozenset(sample.labels.values())), sample.value)
        for family in text_string_to_metric_families(response.body.decode())
        for sample in family.samples
    )


def test_metrics_have_budgets_jobs_and_pools(api: ApiHarness) -> None:
    ann = api.client("ann")
    job = ann.submit("a-dev", resources={"accelerators": "T4:2"}, max_cost=40)
    api.wait_for_state(job, "running")
    time.sleep(0.2)
    samples = scrape(api.client("admin"))
    hard = ("a-dev", "month", "hard")
    assert samples.of("bursar_budget_amount_dollars", *hard) == 100
    spent = samples.of("bursar_budget_spent_dollars", *hard)
    assert 0 < spent < 40
    committed = spent + samples.of("bursar_budget_held_dollars", *hard)
    assert committed >= 40, "the cost limit and the cost of stopping"
    assert samples.of("bursar_budget_left_dollars", *hard) == pytest.approx(100 - committed)
    assert samples.of("bursar_budget_rate_dollars_per_hour", "a-dev") == 180
    assert samples.of("bursar_cost_month_dollars", "a-dev", "usage") == pytest.approx(spent)
    assert samples.of("bursar_pool_idle_dollars_per_hour", "t4") == 180
    assert (samples.of("bursar_pool_gpus", "t4"), samples.of("bursar_pool_gpus_held", "t4")) == (
        4,
        2,
    )
    assert samples.of("bursar_jobs_live", "a-dev") == 1
    assert samples.of("bursar_leader") == 1
    by_kind = [
        value
        for (name, labels), value in samples.items()
        if name == "bursar_pool_month_dollars" and "capacity" not in labels
    ]
    assert samples.of("bursar_pool_month_dollars", "t4", "capacity") == pytest.approx(sum(by_kind))


def test_a_tenant_sees_its_own_metrics_and_none_of_the_fleet(api: ApiHarness) -> None:
    job = api.client("ann").submit("a-dev", resources={"accelerators": "T4:1"}, max_cost=40)
    api.wait_for_state(job, "running")
    own, other = scrape(api.client("ann")), scrape(api.client("bob"))
    assert own.of("bursar_budget_amount_dollars", "a-dev", "month", "hard") == 100
    assert not any("a-dev" in labels for _, labels in other)
    fleet_metrics = ("bursar_pool", "bursar_leader")
    assert not any(name.startswith(fleet_metrics) for name, _ in (*own, *other))


def test_metrics_require_a_token(api: ApiHarness) -> None:
    assert api.client().get("/metrics").status == 401

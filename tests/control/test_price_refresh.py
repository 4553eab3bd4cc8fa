"""Pools that follow cloud prices: recorded responses of Azure, moto's spot market, a real control plane."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from bursar.clouds.aws.prices import AwsPrices, aws_prices
from bursar.clouds.azure.prices import AzurePrices
from bursar.config import parse_fleet
from bursar.control.control_plane import ControlPlane
from bursar.control.monotonic_clock import MonotonicClock
from bursar.control.price_refresh import PriceRefresh
from bursar.model.errors import EngineFault, UserError
from bursar.model.event import PriceChanged
from bursar.model.fleet.price import PriceReading
from bursar.ports import PriceFeed, PriceRequest
from bursar.wiring.price_refresh import clouds, refreshing_prices
from tests.clouds.azure.test_prices import item
from tests.clouds.recorded import Answers, StillClock
from tests.control.harness import PATIENCE_SECONDS, ControlPlaneHarness, until

NC24 = {"machine": "Standard_NC24ads_A100_v4", "region": "eastus"}


def pool(name: str, market: str, follows: str, machine: str, region: str) -> str:
    label = f"bursar/prices: {follows}, " if follows else ""
    return f"""
  {name}:
    cluster: here
    market: {market}
    gpu_model: a100-80gb
    gpus_per_node: 1
    cpus: 24
    memory_gib: 220
    usd_per_node_hour: 3.00
    nodes: [{name}-1]
    labels: {{{label}node.kubernetes.io/instance-type: {machine},
             topology.kubernetes.io/region: {region}}}"""


FLEET = f"""
clusters:
  here: {{engine: local}}
pools:
{pool("nc24", "on-demand", "azure", **NC24)}
{pool("quiet", "on-demand", "", **NC24)}
{pool("ours", "owned", "azure", **NC24)}
{pool("p4d", "spot", "aws", "p4d.24xlarge", "us-east-1")}
tenants:
  acme: {{}}
"""


class NotListed:
    def get_products(self, **asked: Any) -> dict[str, Any]:
        return {"PriceList": []}


class Unreachable:
    def read(self, wanted: Any) -> PriceReading:
        raise EngineFault("no response", retry_after_seconds=1)


def azure(**changed: Any) -> PriceFeed:
    pages = {"api/retail/prices?": {"Items": [item(**changed)], "NextPageLink": ""}}
    return AzurePrices(fetch=Answers(pages), clock=StillClock(MonotonicClock().now_ms()))


def nothing() -> PriceFeed:
    raise UserError("boto3 is not installed here.", fix="Install it.", code="needs-boto3")


def prices(plane: ControlPlane) -> dict[str, int]:
    asked = plane.query_state(
        lambda state, _: {
            name: pool.spec.node_micro_usd_per_hour for name, pool in state.pools.items()
        }
    )
    return asked.result(PATIENCE_SECONDS)


@pytest.fixture
def harness(tmp_path: Path) -> ControlPlaneHarness:
    return ControlPlaneHarness(folder=tmp_path, fleet=parse_fleet({"fleet.yaml": FLEET}))


def test_only_pools_that_declare_it_follow_cloud_prices(harness: ControlPlaneHarness) -> None:
    messages: list[str] = []
    with harness.plane() as plane:
        until(lambda: plane.declaration() is not None, "a fleet is declared")
        refresh = PriceRefresh(plane, {"azure": azure, "aws": nothing}, messages.append)
        assert refresh.run_once() == 1
        found = prices(plane)
        assert found == {
            "nc24": 3_673_000,
            "quiet": 3_000_000,
            "ours": 3_000_000,
            "p4d": 3_000_000,
        }
        events = [one.event for one in plane.reader.events()]
        changes = [event for event in events if isinstance(event, PriceChanged)]
        assert [one.pool for one in changes] == ["nc24"] and changes[0].at_ms > 0
        assert any("nc24 now costs $3.67 an hour" in line and "$3.00" in line for line in messages)
        assert sum("boto3 is not installed" in line for line in messages) == 1
        assert refresh.run_once() == 0
        assert sum("boto3 is not installed" in line for line in messages) == 1


def test_an_unreachable_cloud_changes_nothing_and_is_retried(harness: ControlPlaneHarness) -> None:
    messages: list[str] = []
    with harness.plane() as plane:
        until(lambda: plane.declaration() is not None, "a fleet is declared")
        before = prices(plane)
        assert PriceRefresh(plane, {"azure": Unreachable}, messages.append).run_once() == 0
        assert prices(plane) == before
        assert any("no response" in line for line in messages)
        assert any("there is no price feed for 'aws'" in line for line in messages)


def test_an_implausible_price_is_reported(harness: ControlPlaneHarness) -> None:
    messages: list[str] = []
    with harness.plane() as plane:
        until(lambda: plane.declaration() is not None, "a fleet is declared")
        wild = PriceRefresh(
            plane, {"azure": lambda: azure(retailPrice=9_999.0), "aws": nothing}, messages.append
        )
        assert wild.run_once() == 0
        assert prices(plane)["nc24"] == 3_000_000
        assert any("more than 100 times" in line for line in messages)


@mock_aws
def test_a_spot_pool_follows_the_market_of_moto(
    harness: ControlPlaneHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    clock = MonotonicClock()
    feed = AwsPrices(pricing=NotListed(), ec2=aws_prices(clock).ec2, clock=clock)
    rows = feed.read([PriceRequest(region="us-east-1", instance_types=("p4d.24xlarge",))]).rows
    offered = {row.node_micro_usd_per_hour for row in rows}
    cheap = FLEET.replace("usd_per_node_hour: 3.00", "usd_per_node_hour: 0.0005")
    harness.fleet = parse_fleet({"fleet.yaml": cheap})
    with harness.plane() as plane:
        until(lambda: plane.declaration() is not None, "a fleet is declared")
        messages: list[str] = []
        refresh = PriceRefresh(plane, {"aws": lambda: feed, "azure": azure}, messages.append)
        assert refresh.run_once() == 1, messages
        assert prices(plane)["p4d"] in offered
        past = plane.query_ledger(lambda ledger, _state, _now: ledger.meter.prices.of("p4d"))
        assert len(past.result(PATIENCE_SECONDS)) == 2


def test_the_thread_starts_and_ends_with_its_block(harness: ControlPlaneHarness) -> None:
    messages: list[str] = []
    harness.fleet = parse_fleet(
        {"fleet.yaml": FLEET.replace(": azure", ": here").replace(": aws", ": here")}
    )
    with harness.plane() as plane:
        until(lambda: plane.declaration() is not None, "a fleet is declared")
        with refreshing_prices(plane, messages.append, every_seconds=0.05):
            until(lambda: bool(messages), "an error was reported")
    assert messages == [
        "prices of here are not followed: there is no price feed for 'here'. Write "
        "bursar/prices: aws or azure or gcp."
    ]


def test_a_price_feed_reports_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURSAR_GCP_API_KEY", raising=False)
    feeds = clouds(MonotonicClock())
    with pytest.raises(UserError, match="BURSAR_GCP_API_KEY"):
        feeds["gcp"]()
    monkeypatch.setenv("BURSAR_GCP_API_KEY", "k")
    assert feeds["gcp"]() is not None
    assert isinstance(feeds["azure"](), AzurePrices)

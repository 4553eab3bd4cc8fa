"""The sources that ``bursar up --spot-notices`` configures."""

from __future__ import annotations

import json

import pytest

from bursar.config import parse_fleet
from bursar.model.engine_report import NoticeReported
from bursar.model.errors import UserError
from bursar.model.event import NoticeKind
from bursar.model.fleet.fleet import Fleet
from bursar.wiring.spot_notices import sources_for, spot_nodes_here
from tests.clouds.metadata_double import Asked, Reply, metadata_double

FLEET = """
clusters:
  here: {engine: local}
  elsewhere: {engine: slurm}
pools:
  spot: {cluster: here, market: spot, gpu_model: t4, gpus_per_node: 1, cpus: 4, memory_gib: 8,
         usd_per_node_hour: 0.2, nodes: [s1, s2]}
  owned: {cluster: here, market: owned, gpu_model: t4, gpus_per_node: 1, cpus: 4, memory_gib: 8,
          usd_per_node_hour: 0.4, nodes: [o1]}
  far: {cluster: elsewhere, market: spot, gpu_model: t4, gpus_per_node: 1, cpus: 4, memory_gib: 8,
        usd_per_node_hour: 0.2, nodes: [f1]}
tenants:
  company: {children: {team: {}}}
"""


@pytest.fixture
def fleet() -> Fleet:
    return parse_fleet({"fleet.yaml": FLEET}).fleet


def preempted(_asked: Asked) -> Reply:
    return Reply(body="TRUE", headers={"ETag": "x", "Metadata-Flavor": "Google"})


def azure(asked: Asked) -> Reply:
    if "compute/name" in asked.path:
        return Reply(body="vm")
    event = {"EventId": "1", "EventType": "Preempt", "Resources": ["vm"], "EventStatus": "Started"}
    return Reply(body=json.dumps({"DocumentIncarnation": 1, "Events": [event]}))


def test_this_machine_is_its_local_spot_nodes(fleet: Fleet) -> None:
    assert spot_nodes_here(fleet) == ["s1", "s2"]


def test_a_node_with_an_address_is_asked_there(fleet: Fleet) -> None:
    with metadata_double(preempted) as google, metadata_double(azure) as other:
        words = [f"f1=gcp@{google.address}", f"s1=azure@{other.address}"]
        first, second = sources_for(words, fleet, lambda _node: False)
        (report,) = first.poll()
        assert (report.node, report.source, report.kind) == ("f1", "gcp", NoticeKind.TERMINATE)
        (report,) = second.poll()
        assert isinstance(report, NoticeReported)
        assert (report.node, report.source) == ("s1", "azure")


@pytest.mark.parametrize("word", ["ec2", "s9=aws@http://127.0.0.1:1", "s1=aws@ftp://x", "=aws"])
def test_invalid_values_are_rejected(fleet: Fleet, word: str) -> None:
    with pytest.raises(UserError, match="--spot-notices"):
        sources_for([word], fleet, lambda _node: False)

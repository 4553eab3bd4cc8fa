"""One Bursar drives one Slurm, and says so before anything is declared."""

from __future__ import annotations

import pytest

from bursar.config import parse_fleet
from bursar.control.requests.fleet_requests import require_single_slurm_cluster
from bursar.model.errors import UserError

FLEET = """
clusters: {north: {engine: slurm}, south: {engine: slurm}, here: {engine: local}}
pools:
  t4: {cluster: north, market: owned, gpus: t4 x 4, cpus: 32, memory_gib: 9, usd_per_node_hour: 1, nodes: [a]}
tenants: {acme: {children: {research: {}}}}
"""


def test_two_are_refused_with_their_names() -> None:
    with pytest.raises(
        UserError, match=r"2 clusters .* \(north, south\); one Bursar drives 1"
    ) as told:
        require_single_slurm_cluster(parse_fleet({"fleet.yaml": FLEET}).fleet)
    assert told.value.code == "no-engine" and "SLURM_CONF" in told.value.fix


def test_one_beside_others_is_well() -> None:
    one = FLEET.replace("south: {engine: slurm}, ", "")
    require_single_slurm_cluster(parse_fleet({"fleet.yaml": one}).fleet)

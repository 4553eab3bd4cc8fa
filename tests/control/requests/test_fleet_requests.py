"""A fleet with two Slurm clusters is refused before it is declared."""

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


def test_two_slurm_clusters_are_refused_by_name() -> None:
    with pytest.raises(
        UserError, match=r"2 clusters .* \(north, south\); one Bursar drives 1"
    ) as refused:
        require_single_slurm_cluster(parse_fleet({"fleet.yaml": FLEET}).fleet)
    assert refused.value.code == "no-engine" and "SLURM_CONF" in refused.value.fix


def test_one_slurm_cluster_next_to_local_ones_is_accepted() -> None:
    one = FLEET.replace("south: {engine: slurm}, ", "")
    require_single_slurm_cluster(parse_fleet({"fleet.yaml": one}).fleet)

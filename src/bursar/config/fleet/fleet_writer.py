"""A fleet written as YAML that ``parse_fleet`` reads as the same fleet.

Amounts are exact, and values that equal their default are left out.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import yaml

from bursar.config.fleet.fleet_file import FleetFile
from bursar.config.fleet.policies import POLICIES
from bursar.config.fleet.pools import CLUSTER, POOL, write_nodes
from bursar.config.fleet.tenants import write_tenants
from bursar.config.yaml.key_tables import write_mapping
from bursar.model.fleet.fleet import Node, Pool


class _Dumper(yaml.SafeDumper):
    """Writes numbers without an exponent, which the reader does not accept."""


def _write_number(dumper: yaml.SafeDumper, value: Decimal | float) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:float", f"{Decimal(str(value)):f}")


_Dumper.add_representer(Decimal, _write_number)
_Dumper.add_representer(float, _write_number)


def write_fleet(file: FleetFile) -> str:
    """The whole file."""
    nodes: dict[str, list[Node]] = {pool.name: [] for pool in file.fleet.pools}
    for node in file.fleet.nodes:
        nodes[node.pool].append(node)
    sections: dict[str, Any] = {
        "clusters": {one.name: write_mapping(one, CLUSTER) for one in file.fleet.clusters},
        "pools": {pool.name: _pool(pool, nodes[pool.name]) for pool in file.fleet.pools},
        "tenants": write_tenants(file.tenants),
        "priority_classes": dict(file.policies.priority_classes),
        "policies": POLICIES.write(file.policies),
    }
    return yaml.dump(
        {name: section for name, section in sections.items() if section},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
    )


def _pool(pool: Pool, nodes: list[Node]) -> dict[str, Any]:
    written = write_mapping(pool, POOL)
    if pool.gpu_model is None:
        del written["gpu_model"], written["gpus_per_node"]
    return written | {"nodes": write_nodes(pool.name, nodes)}

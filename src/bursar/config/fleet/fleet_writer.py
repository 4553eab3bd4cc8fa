"""A fleet written back as YAML: what ``parse_fleet`` would read as the same fleet again.

One form for each thing, exact amounts, nothing that says only what would hold anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from itertools import groupby
from typing import Any

import yaml

from bursar.config.fleet.fleet_file import FleetFile
from bursar.config.yaml.dataclass_reader import MONEY, TIME_SUFFIX, key_of
from bursar.config.yaml.located_value import UNITS_MS
from bursar.model.fleet.fleet import Cluster, Node, Pool
from bursar.model.fleet.gpu import DEFAULT_MPS_CLIENT_LIMIT
from bursar.model.tenants.policy import Policies, PreemptionPolicy
from bursar.model.tenants.tenant import (
    CPU,
    GPU,
    MEMORY,
    Budget,
    FlavorResource,
    Queueing,
    Quota,
    Tenant,
)
from bursar.model.units import GIB_MIB, MILLI, USD_MICRO

Plain = dict[str, Any]
KEY_OF = {GPU: ("gpus", MILLI), CPU: ("cpus", MILLI), MEMORY: ("memory_gib", GIB_MIB)}


class _Dumper(yaml.SafeDumper):
    """Writes exact decimals as plain numbers, and short lists and mappings on one line."""


def _write_decimal(dumper: yaml.SafeDumper, value: Decimal) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:float", f"{value:f}")


_Dumper.add_representer(Decimal, _write_decimal)


def write_fleet(file: FleetFile) -> str:
    """The whole file."""
    sections: Plain = {
        "clusters": {one.name: _cluster(one) for one in file.fleet.clusters},
        "pools": dict(_pools(file)),
        "tenants": _children(None, file.tenants),
        "priority_classes": dict(file.policies.priority_classes),
        "policies": _changed(file.policies, Policies(), leave_out="priority_classes"),
    }
    written = {name: section for name, section in sections.items() if section}
    return yaml.dump(
        written, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )


def _cluster(cluster: Cluster) -> Plain:
    found: Plain = {}
    if cluster.engine is not Cluster(name=cluster.name).engine:
        found["engine"] = cluster.engine.value
    if cluster.topology_levels:
        found["topology"] = list(cluster.topology_levels)
    return found


# -- pools -------------------------------------------------------------------------------------------


def _pools(file: FleetFile) -> Iterator[tuple[str, Plain]]:
    nodes: dict[str, list[Node]] = {pool.name: [] for pool in file.fleet.pools}
    for node in file.fleet.nodes:
        nodes[node.pool].append(node)
    for pool in file.fleet.pools:
        yield pool.name, _pool(pool, nodes[pool.name])


def _pool(pool: Pool, nodes: list[Node]) -> Plain:
    found: Plain = {"cluster": pool.cluster, "market": pool.market.value}
    if pool.gpu_model is not None:
        found |= {"gpu_model": pool.gpu_model.name, "gpus_per_node": pool.gpus_per_node}
    found["cpus"] = _amount(pool.cpu_milli, MILLI)
    found["memory_gib"] = _amount(pool.memory_mib, GIB_MIB)
    if pool.disk_mib:
        found["disk_gib"] = _amount(pool.disk_mib, GIB_MIB)
    found["usd_per_node_hour"] = _amount(pool.node_micro_usd_per_hour, USD_MICRO)
    if pool.interruptions_per_million_hours:
        found["interruptions_per_million_hours"] = pool.interruptions_per_million_hours
    if pool.labels:
        found["labels"] = dict(pool.labels)
    if pool.taints:
        found["taints"] = [
            {"key": taint.key, "value": taint.value} if taint.value else {"key": taint.key}
            for taint in pool.taints
        ]
    if not pool.mig_allowed:
        found["mig"] = False
    if pool.mps_client_limit != DEFAULT_MPS_CLIENT_LIMIT:
        found["mps_clients"] = pool.mps_client_limit
    found["nodes"] = _nodes(pool.name, nodes)
    return found


def _nodes(pool: str, nodes: list[Node]) -> Any:
    """A number or a pattern when that says it all, else a list."""
    prefix = re.sub(r"0*1\Z", "", nodes[0].id) if nodes else f"{pool}-"
    numbered = all(node.id == f"{prefix}{n:04}" for n, node in enumerate(nodes, start=1))
    widths = {level: _width(level, nodes) for level in (nodes[0].labels if nodes else ())}
    if not numbered or any(
        node.labels != {level: f"{pool}-{level}-{n // w + 1}" for level, w in widths.items()}
        for n, node in enumerate(nodes)
    ):
        return [
            {"id": node.id, "labels": dict(node.labels)} if node.labels else node.id
            for node in nodes
        ]
    if prefix == f"{pool}-" and not widths:
        return len(nodes)
    pattern: Plain = {"count": len(nodes)}
    if prefix != f"{pool}-":
        pattern["prefix"] = prefix
    return pattern | ({"per_domain": widths} if widths else {})


def _width(level: str, nodes: list[Node]) -> int:
    """How many nodes in a row, from the first on, share a domain."""
    _, first = next(groupby(nodes, key=lambda node: node.labels.get(level)))
    return sum(1 for _ in first)


# -- tenants -----------------------------------------------------------------------------------------


def _children(parent: str | None, tenants: Iterable[Tenant]) -> Plain:
    everyone = tuple(tenants)
    return {one.name: _tenant(one, everyone) for one in everyone if one.parent == parent}


def _tenant(tenant: Tenant, everyone: tuple[Tenant, ...]) -> Plain:
    below = _children(tenant.name, everyone)
    usual = Tenant(name=tenant.name)
    found: Plain = {}
    if tenant.is_queue == bool(below):
        found["queue"] = tenant.is_queue
    if tenant.weight != usual.weight:
        found["weight"] = tenant.weight
    if tenant.quotas:
        found["quotas"] = _quotas(tenant.quotas)
    if tenant.budget is not None:
        found["budget"] = _budget(tenant.budget)
    if tenant.queueing is not Queueing.BEST_EFFORT:
        found["queueing"] = tenant.queueing.value
    if tenant.preemption != usual.preemption:
        found["preemption"] = _preemption(tenant.preemption)
    return found | ({"children": below} if below else {})


def _budget(budget: Budget) -> Plain:
    found: Plain = {
        "usd": _amount(budget.amount_micro_usd, USD_MICRO),
        "period": budget.period.value,
        "enforcement": budget.enforcement.value,
    }
    if budget.steps:
        found["steps"] = [
            {"at_percent": one.at_percent, "action": one.action.value} for one in budget.steps
        ]
    return found


def _quotas(quotas: Mapping[FlavorResource, Quota]) -> Plain:
    found: Plain = {}
    for (flavor, resource), quota in quotas.items():
        key, per_one = KEY_OF[resource]
        found.setdefault(flavor, {})[key] = _allowance(quota, per_one)
    plain_gpus = {"gpus"}
    return {
        flavor: held["gpus"]
        if held.keys() == plain_gpus and not isinstance(held["gpus"], dict)
        else held
        for flavor, held in found.items()
    }


def _allowance(quota: Quota, per_one: int) -> Any:
    nominal = _amount(quota.nominal, per_one)
    if quota.borrowing_limit is None and quota.lending_limit is None:
        return nominal
    found: Plain = {"nominal": nominal}
    if quota.borrowing_limit is not None:
        found["borrow"] = _amount(quota.borrowing_limit, per_one)
    if quota.lending_limit is not None:
        found["lend"] = _amount(quota.lending_limit, per_one)
    return found


def _preemption(policy: PreemptionPolicy) -> Plain:
    found: Plain = {"within_queue": policy.within_queue.value, "reclaim": policy.reclaim.value}
    borrowing = policy.borrow_while_reclaiming
    if borrowing is not None:
        most = borrowing.max_priority
        found["borrow_while_reclaiming"] = True if most is None else {"max_priority": most}
    return found


# -- policies and amounts ----------------------------------------------------------------------------


def _changed(value: Any, usual: Any, leave_out: str = "") -> Plain:
    """What differs from what would hold anyway, field by field."""
    found: Plain = {}
    for one in fields(value):
        now, was = getattr(value, one.name), getattr(usual, one.name)
        if now == was or one.name == leave_out:
            continue
        if is_dataclass(now) and was is not None:
            found[one.name] = _changed(now, was)
        else:
            found[key_of(one.name)] = _plain(now, one.name)
    return found


def _plain(value: Any, field: str) -> Any:
    if isinstance(value, tuple):
        return [_plain(one, field) for one in value]
    if is_dataclass(value):
        return {
            key_of(one.name): _plain(getattr(value, one.name), one.name) for one in fields(value)
        }
    if MONEY in field and value is not None:
        return _amount(value, USD_MICRO)
    if isinstance(value, Enum):
        return value.value
    return exact_duration(value) if field.endswith(TIME_SUFFIX) and value is not None else value


def exact_duration(duration_ms: int) -> str:
    """``1 h 30 min``: every unit that it takes to say it exactly."""
    parts = []
    for unit, unit_ms in sorted(UNITS_MS.items(), key=lambda one: -one[1]):
        count, duration_ms = divmod(duration_ms, unit_ms)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


def _amount(units: int, per_one: int) -> int | Decimal:
    """Exact: every amount that is kept can be written with a few decimals."""
    whole, rest = divmod(units, per_one)
    return whole if not rest else (Decimal(units) / per_one).normalize()

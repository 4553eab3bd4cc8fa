"""Clusters, pools and nodes of a fleet file: their keys, and how they are read and written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from bursar.catalog.gpu_models import find_gpu_model
from bursar.config.fleet.owned_rate import OWNED_RATE
from bursar.config.yaml.key_tables import (
    BOOLEAN,
    COUNT,
    LABEL,
    NUMBER_SCHEMA,
    STRING,
    USD,
    FileKey,
    KeyTable,
    ValueFormat,
    amount,
    by_field,
    by_name,
    choice_of,
    described,
    either,
    list_of,
    mapping,
    read_mapping,
    read_mapping_or_null,
    require,
)
from bursar.config.yaml.value_readers import InvalidValue, in_units, plain_text, shown, whole
from bursar.config.yaml.yaml_text import Path
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import EngineKind, Market, Node, Pool, Taint
from bursar.model.fleet.gpu import GpuModel
from bursar.model.units import GIB_MIB, MILLI

MOST_NODES = 1_000_000
SHORT_FORM = ("gpus", "cpus", "memory_gib", "disk_gib", "usd_per_node_hour")
"""Keys of a cluster that describe the one pool that its ``nodes`` make."""
CPUS_EACH, GIB_EACH = 4, 16
"""Defaults of the short form for each GPU of a node, and for a node without GPUs."""
NODE_MICRO_USD, A100_MICRO_USD = 100_000, 1_500_000
"""Default price of an hour of a node, and of a GPU as fast as an A100."""

_GPUS = re.compile(r"(\S+)\s+x\s*(\d{1,4})", re.IGNORECASE)
CPUS = amount(MILLI, "thousandth of a CPU")
GIB = amount(GIB_MIB, "MiB")
LABELS = by_name(LABEL)


# -- GPUs --------------------------------------------------------------------------------------------


def known_model(name: str) -> GpuModel:
    """A model of the catalog, by any of its names."""
    try:
        return find_gpu_model(name)
    except UserError as error:
        problem = f"is {name[:60]!r}, not a known GPU model"
        raise InvalidValue(problem, error.fix, "unknown-gpu-model") from error


def _model_and_count(value: Any) -> tuple[GpuModel, int]:
    """``t4 x 4``."""
    match = _GPUS.fullmatch(plain_text(value).strip())
    if match is None:
        fix = "Write the model and how many each node has, for example 't4 x 4'."
        raise InvalidValue(f"is {shown(value)}", fix, "wrong-type")
    return known_model(match[1]), int(match[2])


GPUS = ValueFormat(_model_and_count, STRING.schema)
GPU_MODEL = ValueFormat(
    lambda value: known_model(plain_text(value)), STRING.schema, lambda model: model.name
)

# -- nodes -------------------------------------------------------------------------------------------

_read_count = whole(0, MOST_NODES)
NODE_COUNT = ValueFormat(_read_count, COUNT.schema)
NODE = KeyTable(
    name="a node",
    keys={
        "id": FileKey("the node's name, unique in the fleet", LABEL),
        "labels": FileKey("labels of this node", LABELS),
    },
    required=("id",),
)
NODE_PATTERN = KeyTable(
    name="a pattern of nodes",
    keys={
        "count": FileKey("number of nodes", NODE_COUNT),
        "prefix": FileKey(
            "prefix of the numbered node names; default: the pool's name and a dash", LABEL
        ),
        "per_domain": FileKey(
            "for each topology level, the number of consecutive nodes in one domain",
            by_name(ValueFormat(whole(1, MOST_NODES), COUNT.schema)),
        ),
    },
    required=("count",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePattern:
    """Numbered nodes; ``prefix`` None means the pool's name and a dash."""

    count: int
    prefix: str | None = None
    per_domain: Mapping[str, int] = field(default_factory=dict)


_PATTERN = mapping(NODE_PATTERN, NodePattern)
_LISTED = list_of(
    ValueFormat(
        lambda value: (
            read_mapping(value, NODE) if isinstance(value, dict) else {"id": plain_text(value)}
        ),
        either(LABEL.schema, described(NODE)),
    )
)


def _read_nodes(value: Any) -> NodePattern | tuple[dict[str, Any], ...]:
    """A number, a pattern or a list."""
    if isinstance(value, list):
        listed: tuple[dict[str, Any], ...] = _LISTED.read(value)
        return listed
    if isinstance(value, dict):
        pattern: NodePattern = _PATTERN.read(value)
        return pattern
    return NodePattern(count=_read_count(value))


NODES = ValueFormat(_read_nodes, either(COUNT.schema, _PATTERN.schema, _LISTED.schema))


def nodes_of(
    pool: str, nodes: NodePattern | tuple[dict[str, Any], ...]
) -> Iterator[tuple[Node, Path]]:
    """The nodes of a pool, each with the path below ``nodes`` that describes it."""
    if isinstance(nodes, tuple):
        for index, described_node in enumerate(nodes):
            yield Node(pool=pool, **described_node), (index,)
        return
    prefix = f"{pool}-" if nodes.prefix is None else nodes.prefix
    for number in range(nodes.count):
        labels = {
            level: f"{pool}-{level}-{number // width + 1}"
            for level, width in nodes.per_domain.items()
        }
        yield Node(id=f"{prefix}{number + 1:04}", pool=pool, labels=labels), ()


def write_nodes(pool: str, nodes: list[Node]) -> Any:
    """A number or a pattern if the nodes follow one, otherwise a list."""
    prefix = re.sub(r"0*1\Z", "", nodes[0].id) if nodes else f"{pool}-"
    pattern = NodePattern(
        count=len(nodes),
        prefix=None if prefix == f"{pool}-" else prefix,
        per_domain={level: _width(level, nodes) for level in (nodes[0].labels if nodes else ())},
    )
    if [node for node, _ in nodes_of(pool, pattern)] != nodes:
        return [
            {"id": node.id, "labels": dict(node.labels)} if node.labels else node.id
            for node in nodes
        ]
    if pattern == NodePattern(count=len(nodes)):
        return len(nodes)
    return _PATTERN.write(pattern)


def _width(level: str, nodes: list[Node]) -> int:
    """How many nodes, from the first on, share a domain."""
    _, first = next(groupby(nodes, key=lambda node: node.labels.get(level)))
    return sum(1 for _ in first)


# -- clusters ----------------------------------------------------------------------------------------

CLUSTER = KeyTable(
    name="a cluster",
    keys={
        "engine": FileKey(
            "what runs its jobs: local, slurm, kubernetes or simulated", choice_of(EngineKind)
        ),
        "topology": FileKey(
            "topology levels, widest first; each node has a label for each level",
            list_of(LABEL),
            "topology_levels",
        ),
        "nodes": FileKey(
            "number of nodes: creates one owned pool with the cluster's name", NODE_COUNT
        ),
        "gpus": FileKey("GPUs of each node of that pool, such as 't4 x 4'; default: none", GPUS),
        "cpus": FileKey("CPUs of each node of that pool", CPUS),
        "memory_gib": FileKey("GiB of memory of each node of that pool", GIB),
        "disk_gib": FileKey("GiB of local disk of each node of that pool", GIB),
        "usd_per_node_hour": FileKey("dollars for an hour of a node of that pool", USD),
    },
    without_field=("nodes", *SHORT_FORM),
)


def _read_cluster(value: Any) -> dict[str, Any]:
    values = read_mapping_or_null(value, CLUSTER)
    stray = [key for key in SHORT_FORM if key in values]
    if stray and "nodes" not in values:
        fix = "Add 'nodes', or write a pool."
        raise InvalidValue("has no effect without 'nodes'", fix, "missing-key").inside(stray[0])
    return values


CLUSTERS = by_name(ValueFormat(_read_cluster, described(CLUSTER)))


def short_pool(name: str, cluster: Mapping[str, Any]) -> Pool:
    """The one pool of a cluster in the short form."""
    model, gpus = cluster.get("gpus", (None, 0))
    gpus_or_one = max(1, gpus)
    return Pool(
        name=name,
        cluster=name,
        market=Market.OWNED,
        gpu_model=model,
        gpus_per_node=gpus,
        cpu_milli=cluster.get("cpus", gpus_or_one * CPUS_EACH * MILLI),
        memory_mib=cluster.get("memory_gib", gpus_or_one * GIB_EACH * GIB_MIB),
        disk_mib=cluster.get("disk_gib", 0),
        node_micro_usd_per_hour=cluster.get("usd_per_node_hour", _guessed_price(model, gpus)),
    )


def _guessed_price(model: GpuModel | None, gpus: int) -> int:
    """A price by speed: owned GPUs at $0 would falsify every comparison."""
    speed_milli = model.relative_speed_milli if model else 0
    return NODE_MICRO_USD + gpus * speed_milli * A100_MICRO_USD // MILLI


# -- pools -------------------------------------------------------------------------------------------

TAINT = KeyTable(
    name="a taint",
    keys={
        "key": FileKey("the taint's name", LABEL),
        "value": FileKey("the taint's value; default: empty", LABEL),
    },
    required=("key",),
)
POOL = KeyTable(
    name="a pool",
    keys={
        "cluster": FileKey("the cluster it belongs to; default: the only cluster", LABEL),
        "market": FileKey("owned, reserved, on-demand or spot", choice_of(Market)),
        "gpu_model": FileKey(
            "the GPU model, by any of its common names; default: no GPUs", GPU_MODEL
        ),
        "gpus_per_node": FileKey("GPUs on each node", COUNT),
        "gpus": FileKey("gpu_model and gpus_per_node in one key, such as 't4 x 4'", GPUS),
        "cpus": FileKey("CPUs on each node", CPUS, "cpu_milli"),
        "memory_gib": FileKey("GiB of memory on each node", GIB, "memory_mib"),
        "disk_gib": FileKey("GiB of local disk on each node", GIB, "disk_mib"),
        "usd_per_node_hour": FileKey(
            "dollars for an hour of a node; for owned nodes the amortised cost",
            USD,
            "node_micro_usd_per_hour",
        ),
        "owned": FileKey(
            "what an owned node costs to buy and run; replaces usd_per_node_hour", OWNED_RATE
        ),
        "interruptions_per_million_hours": FileKey(
            "interruptions of a spot node in a million hours",
            ValueFormat(lambda value: in_units(value, 1, "interruption"), NUMBER_SCHEMA),
        ),
        "labels": FileKey("labels of every node of the pool", LABELS),
        "taints": FileKey(
            "only jobs that tolerate these taints run here", list_of(mapping(TAINT, Taint))
        ),
        "mig": FileKey("whether its GPUs may be partitioned by MIG", BOOLEAN, "mig_allowed"),
        "mps_clients": FileKey("the most MPS shares of one GPU", COUNT, "mps_client_limit"),
        "nodes": FileKey("the nodes: a number, a pattern or a list", NODES),
    },
    required=("market", "cpus", "memory_gib", "nodes"),
    without_field=("gpus", "owned", "nodes"),
)


def _read_pool(value: Any) -> dict[str, Any]:
    """The fields of a pool, except its name, and ``nodes``."""
    values = read_mapping_or_null(value, POOL)
    pool = {"gpu_model": None, "gpus_per_node": 0, **by_field(values, POOL)}
    if "gpus" in values:
        if "gpu_model" in values or "gpus_per_node" in values:
            fix = "Keep 'gpus' alone, or 'gpu_model' and 'gpus_per_node'."
            problem = "repeats 'gpu_model' or 'gpus_per_node'"
            raise InvalidValue(problem, fix, "two-choices").inside("gpus")
        pool["gpu_model"], pool["gpus_per_node"] = values["gpus"]
    if "owned" in values:
        pool["node_micro_usd_per_hour"] = _owned_rate(values)
    else:
        require(values, ("usd_per_node_hour",))
    return {**pool, "nodes": values["nodes"]}


def _owned_rate(values: Mapping[str, Any]) -> int:
    if "usd_per_node_hour" in values:
        fix = "Keep 'owned' or 'usd_per_node_hour'."
        problem = "is given together with a price by the hour"
        raise InvalidValue(problem, fix, "two-choices").inside("owned")
    if values["market"] is not Market.OWNED:
        fix = "Write usd_per_node_hour instead, or 'market: owned'."
        problem = f"is given for a pool whose market is {values['market']}"
        raise InvalidValue(problem, fix, "two-choices").inside("owned")
    rate: int = values["owned"]
    return rate


POOLS = by_name(ValueFormat(_read_pool, described(POOL)))

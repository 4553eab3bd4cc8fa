"""Clusters, pools and nodes of a fleet file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bursar.catalog.gpu_models import find_gpu_model
from bursar.config import keys
from bursar.config.entry import Entry
from bursar.model.errors import UserError
from bursar.model.fleet import Cluster, Market, Node, Pool, Taint
from bursar.model.gpu import DEFAULT_MPS_CLIENT_LIMIT, GpuModel
from bursar.model.units import GIB_MIB, MILLI, USD_MICRO

MOST_NODES = 1_000_000
REQUIRED = ("market", "cpus", "memory_gib", "usd_per_node_hour", "nodes")


def read_cluster(name: str, entry: Entry) -> Cluster:
    """A cluster and its topology levels."""
    said = entry.fields(keys.CLUSTER)
    levels = said["topology"].members() if "topology" in said else []
    return Cluster(name=name, topology_levels=tuple(level.text() for level in levels))


def read_pool(name: str, entry: Entry, only_cluster: str | None) -> Pool:
    """A pool without its nodes."""
    said = entry.fields(keys.POOL)
    require(entry, said, REQUIRED if only_cluster else ("cluster", *REQUIRED))
    return Pool(
        name=name,
        cluster=said["cluster"].text() if "cluster" in said else only_cluster or "",
        market=said["market"].choice(Market),
        gpu_model=read_gpu_model(said["gpu_model"]) if "gpu_model" in said else None,
        gpus_per_node=said["gpus_per_node"].whole() if "gpus_per_node" in said else 0,
        cpu_milli=said["cpus"].in_units(MILLI, "thousandth of a CPU"),
        memory_mib=said["memory_gib"].in_units(GIB_MIB, "MiB"),
        disk_mib=said["disk_gib"].in_units(GIB_MIB, "MiB") if "disk_gib" in said else 0,
        node_micro_usd_per_hour=said["usd_per_node_hour"].in_units(USD_MICRO, "micro-dollar"),
        labels=read_labels(said.get("labels")),
        taints=tuple(_read_taints(said.get("taints"))),
        interruptions_per_million_hours=_rate(said.get("interruptions_per_million_hours")),
        mig_allowed=said["mig"].flag() if "mig" in said else True,
        mps_client_limit=_mps_clients(said.get("mps_clients")),
    )


def _rate(entry: Entry | None) -> int:
    return entry.in_units(1, "interruption") if entry else 0


def _mps_clients(entry: Entry | None) -> int:
    return entry.whole() if entry else DEFAULT_MPS_CLIENT_LIMIT


def read_gpu_model(entry: Entry) -> GpuModel:
    """A model of the catalog, by any name."""
    name = entry.text()
    try:
        return find_gpu_model(name)
    except UserError as error:
        raise entry.wrong(
            f"is {name!r}, not a GPU model we know", error.fix, "unknown-gpu-model"
        ) from error


def read_labels(entry: Entry | None) -> dict[str, str]:
    return {key: one.text() for key, one in entry.named().items()} if entry else {}


def _read_taints(entry: Entry | None) -> Iterator[Taint]:
    for one in entry.members() if entry else ():
        said = one.fields(keys.TAINT)
        require(one, said, ("key",))
        yield Taint(key=said["key"].text(), value=said["value"].text() if "value" in said else "")


def require(entry: Entry, said: Mapping[str, Entry], wanted: tuple[str, ...]) -> None:
    """Refuse a mapping in which something is missing that has no default."""
    missing = [key for key in wanted if key not in said]
    if missing:
        text = ", ".join(repr(key) for key in missing)
        raise entry.wrong(f"lacks {text}", "Write it below the name.", "missing-key")


# -- nodes ---------------------------------------------------------------------------------------


def read_nodes(pool: str, entry: Entry) -> Iterator[tuple[Node, Entry]]:
    """The nodes of a pool, each with the entry to blame for it: a number, a pattern or a list."""
    if entry.is_list:
        for one in entry.members():
            yield _read_node(pool, one), one
    elif entry.is_mapping:
        for node in _from_pattern(pool, entry):
            yield node, entry
    else:
        for number in range(1, _count(entry) + 1):
            yield Node(id=f"{pool}-{number:04}", pool=pool), entry


def _count(entry: Entry) -> int:
    count = entry.whole()
    if not 0 <= count <= MOST_NODES:
        raise entry.wrong(f"is {count:,}", f"Write 0 to {MOST_NODES:,} nodes.", "out-of-range")
    return count


def _read_node(pool: str, entry: Entry) -> Node:
    if not entry.is_mapping:
        return Node(id=entry.text(), pool=pool)
    said = entry.fields(keys.NODE)
    require(entry, said, ("id",))
    return Node(id=said["id"].text(), pool=pool, labels=read_labels(said.get("labels")))


def _from_pattern(pool: str, entry: Entry) -> Iterator[Node]:
    said = entry.fields(keys.NODE_PATTERN)
    require(entry, said, ("count",))
    prefix = said["prefix"].text() if "prefix" in said else f"{pool}-"
    widths = said["per_domain"].named() if "per_domain" in said else {}
    nodes_each = {level: _width(one) for level, one in widths.items()}
    for number in range(_count(said["count"])):
        labels = {
            level: f"{pool}-{level}-{number // width + 1}" for level, width in nodes_each.items()
        }
        yield Node(id=f"{prefix}{number + 1:04}", pool=pool, labels=labels)


def _width(entry: Entry) -> int:
    width = entry.whole()
    if width < 1:
        raise entry.wrong(f"is {width}", "Write at least 1 node.", "out-of-range")
    return width

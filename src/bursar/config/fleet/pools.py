"""Clusters, pools and nodes of a fleet file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bursar.catalog.gpu_models import find_gpu_model
from bursar.config.fleet import fleet_keys
from bursar.config.fleet.owned_rate import read_owned
from bursar.config.yaml.located_value import LocatedValue
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Cluster, EngineKind, Market, Node, Pool, Taint
from bursar.model.fleet.gpu import DEFAULT_MPS_CLIENT_LIMIT, GpuModel
from bursar.model.units import GIB_MIB, MILLI, USD_MICRO

MOST_NODES = 1_000_000
SHORT_FORM = ("gpus", "cpus", "memory_gib", "disk_gib", "usd_per_node_hour")
"""What a cluster may say of the one pool that its ``nodes`` make."""
CPUS_EACH, GIB_EACH = 4, 16
"""For each GPU of a node of which nothing else is said, and for a node without any."""
NODE_MICRO_USD, A100_MICRO_USD = 100_000, 1_500_000
"""For an hour of a node, and of a GPU as fast as an A100, of which no price is said."""

_GPUS = re.compile(r"(\S+)\s+x\s*(\d{1,4})", re.IGNORECASE)
REQUIRED = ("market", "cpus", "memory_gib", "nodes")


def read_cluster(name: str, entry: LocatedValue) -> Cluster:
    """A cluster and its topology levels."""
    said = entry.fields(fleet_keys.CLUSTER)
    levels = said["topology"].members() if "topology" in said else []
    return Cluster(
        name=name,
        topology_levels=tuple(level.text() for level in levels),
        engine=said["engine"].choice(EngineKind) if "engine" in said else EngineKind.SIMULATED,
    )


def read_short_pool(name: str, entry: LocatedValue) -> Pool | None:
    """The one pool of a cluster that says how many nodes it has, as a whole fleet in two words."""
    said = entry.fields(fleet_keys.CLUSTER)
    if "nodes" not in said:
        stray = [key for key in SHORT_FORM if key in said]
        if stray:
            fix = "Write 'nodes' beside it, or write a pool."
            raise said[stray[0]].wrong("says nothing without 'nodes'", fix, "missing-key")
        return None
    model, gpus = _gpus_each(said["gpus"]) if "gpus" in said else (None, 0)
    price = said.get("usd_per_node_hour")
    return Pool(
        name=name,
        cluster=name,
        market=Market.OWNED,
        gpu_model=model,
        gpus_per_node=gpus,
        cpu_milli=_amount(said.get("cpus"), max(1, gpus) * CPUS_EACH, MILLI, "thousandth of a CPU"),
        memory_mib=_amount(said.get("memory_gib"), max(1, gpus) * GIB_EACH, GIB_MIB, "MiB"),
        disk_mib=_amount(said.get("disk_gib"), 0, GIB_MIB, "MiB"),
        node_micro_usd_per_hour=(
            price.in_units(USD_MICRO, "micro-dollar") if price else _guessed_price(model, gpus)
        ),
    )


def _amount(entry: LocatedValue | None, usual: int, per_one: int, unit: str) -> int:
    return entry.in_units(per_one, unit) if entry else usual * per_one


def _guessed_price(model: GpuModel | None, gpus: int) -> int:
    """Owned GPUs at $0 would make every comparison dishonest; a guess by speed is nearer the truth."""
    speed_milli = model.relative_speed_milli if model else 0
    return NODE_MICRO_USD + gpus * speed_milli * A100_MICRO_USD // MILLI


def _gpus_each(entry: LocatedValue) -> tuple[GpuModel, int]:
    """``t4 x 4``."""
    written = entry.text()
    found = _GPUS.fullmatch(written.strip())
    if found is None:
        fix = "Write the model and how many each node has, for example 't4 x 4'."
        raise entry.wrong(f"is {written[:60]!r}", fix, "wrong-type")
    return _known_model(found[1], entry), int(found[2])


def read_pool(name: str, entry: LocatedValue, only_cluster: str | None) -> Pool:
    """A pool without its nodes."""
    said = entry.fields(fleet_keys.POOL)
    require(entry, said, REQUIRED if only_cluster else ("cluster", *REQUIRED))
    model, gpus = _gpus_of(said)
    market = said["market"].choice(Market)
    return Pool(
        name=name,
        cluster=said["cluster"].text() if "cluster" in said else only_cluster or "",
        market=market,
        gpu_model=model,
        gpus_per_node=gpus,
        cpu_milli=said["cpus"].in_units(MILLI, "thousandth of a CPU"),
        memory_mib=said["memory_gib"].in_units(GIB_MIB, "MiB"),
        disk_mib=said["disk_gib"].in_units(GIB_MIB, "MiB") if "disk_gib" in said else 0,
        node_micro_usd_per_hour=_node_rate(entry, said, market),
        labels=read_labels(said.get("labels")),
        taints=tuple(_read_taints(said.get("taints"))),
        interruptions_per_million_hours=_rate(said.get("interruptions_per_million_hours")),
        mig_allowed=said["mig"].flag() if "mig" in said else True,
        mps_client_limit=_mps_clients(said.get("mps_clients")),
    )


def _node_rate(entry: LocatedValue, said: Mapping[str, LocatedValue], market: Market) -> int:
    """What an hour of a node costs: as written, or worked out of what an owned one costs."""
    if "owned" not in said:
        require(entry, said, ("usd_per_node_hour",))
        return said["usd_per_node_hour"].in_units(USD_MICRO, "micro-dollar")
    if "usd_per_node_hour" in said:
        fix = "Keep 'owned' or 'usd_per_node_hour'."
        raise said["owned"].wrong("stands beside a price by the hour", fix, "two-choices")
    return read_owned(said["owned"], market)


def _gpus_of(said: Mapping[str, LocatedValue]) -> tuple[GpuModel | None, int]:
    """The two ways to say it: a model and a number, or both in one."""
    if "gpus" not in said:
        model = read_gpu_model(said["gpu_model"]) if "gpu_model" in said else None
        return model, said["gpus_per_node"].whole() if "gpus_per_node" in said else 0
    if "gpu_model" in said or "gpus_per_node" in said:
        fix = "Keep 'gpus' alone, or 'gpu_model' and 'gpus_per_node'."
        raise said["gpus"].wrong("stands beside the same in two keys", fix, "two-choices")
    return _gpus_each(said["gpus"])


def _rate(entry: LocatedValue | None) -> int:
    return entry.in_units(1, "interruption") if entry else 0


def _mps_clients(entry: LocatedValue | None) -> int:
    return entry.whole() if entry else DEFAULT_MPS_CLIENT_LIMIT


def read_gpu_model(entry: LocatedValue) -> GpuModel:
    """A model of the catalog, by any name."""
    return _known_model(entry.text(), entry)


def _known_model(name: str, entry: LocatedValue) -> GpuModel:
    try:
        return find_gpu_model(name)
    except UserError as error:
        raise entry.wrong(
            f"is {name!r}, not a GPU model we know", error.fix, "unknown-gpu-model"
        ) from error


def read_labels(entry: LocatedValue | None) -> dict[str, str]:
    return {key: one.text() for key, one in entry.named().items()} if entry else {}


def _read_taints(entry: LocatedValue | None) -> Iterator[Taint]:
    for one in entry.members() if entry else ():
        said = one.fields(fleet_keys.TAINT)
        require(one, said, ("key",))
        yield Taint(key=said["key"].text(), value=said["value"].text() if "value" in said else "")


def require(entry: LocatedValue, said: Mapping[str, LocatedValue], wanted: tuple[str, ...]) -> None:
    """Refuse a mapping in which something is missing that has no default."""
    missing = [key for key in wanted if key not in said]
    if missing:
        text = ", ".join(repr(key) for key in missing)
        raise entry.wrong(f"lacks {text}", "Write it below the name.", "missing-key")


# -- nodes ---------------------------------------------------------------------------------------


def read_nodes(pool: str, entry: LocatedValue) -> Iterator[tuple[Node, LocatedValue]]:
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


def _count(entry: LocatedValue) -> int:
    count = entry.whole()
    if not 0 <= count <= MOST_NODES:
        raise entry.wrong(f"is {count:,}", f"Write 0 to {MOST_NODES:,} nodes.", "out-of-range")
    return count


def _read_node(pool: str, entry: LocatedValue) -> Node:
    if not entry.is_mapping:
        return Node(id=entry.text(), pool=pool)
    said = entry.fields(fleet_keys.NODE)
    require(entry, said, ("id",))
    return Node(id=said["id"].text(), pool=pool, labels=read_labels(said.get("labels")))


def _from_pattern(pool: str, entry: LocatedValue) -> Iterator[Node]:
    said = entry.fields(fleet_keys.NODE_PATTERN)
    require(entry, said, ("count",))
    prefix = said["prefix"].text() if "prefix" in said else f"{pool}-"
    widths = said["per_domain"].named() if "per_domain" in said else {}
    nodes_each = {level: _width(one) for level, one in widths.items()}
    for number in range(_count(said["count"])):
        labels = {
            level: f"{pool}-{level}-{number // width + 1}" for level, width in nodes_each.items()
        }
        yield Node(id=f"{prefix}{number + 1:04}", pool=pool, labels=labels)


def _width(entry: LocatedValue) -> int:
    width = entry.whole()
    if width < 1:
        raise entry.wrong(f"is {width}", "Write at least 1 node.", "out-of-range")
    return width

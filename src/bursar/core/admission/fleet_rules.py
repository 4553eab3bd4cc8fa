"""Rules for clusters, pools and nodes: unique names and valid references."""

from __future__ import annotations

from collections.abc import Iterator

from bursar.core.admission.problem import Problem, listed, repeated, suggest
from bursar.core.nodes.pool import NODE_LEVEL
from bursar.model.fleet.fleet import Fleet, Pool
from bursar.model.fleet.gpu import GpuModel


def fleet_problems(fleet: Fleet) -> Iterator[Problem]:
    """All problems of a fleet."""
    yield from names_are_unique(fleet)
    yield from levels_are_legal(fleet)
    yield from pools_are_in_clusters(fleet)
    yield from gpus_have_a_model(fleet)
    yield from model_names_are_unique(fleet)
    yield from nodes_are_in_pools(fleet)
    yield from nodes_have_topology_labels(fleet)


def names_are_unique(fleet: Fleet) -> Iterator[Problem]:
    for field, names in (
        ("clusters", [cluster.name for cluster in fleet.clusters]),
        ("pools", [pool.name for pool in fleet.pools]),
        ("nodes", [node.id for node in fleet.nodes]),
    ):
        for name in repeated(names):
            yield Problem(
                code=f"duplicate-{field.removesuffix('s')}",
                field=field,
                text=f"has {name!r} twice",
                fix="Use each name once.",
            )


def levels_are_legal(fleet: Fleet) -> Iterator[Problem]:
    for index, cluster in enumerate(fleet.clusters):
        field = f"clusters[{index}].topology_levels"
        if NODE_LEVEL in cluster.topology_levels:
            yield Problem(
                code="reserved-level",
                field=field,
                text=f"of {cluster.name!r} names {NODE_LEVEL!r}, which every cluster has",
                fix="Leave it out: nodes are always the narrowest level.",
            )
        for level in repeated(cluster.topology_levels):
            yield Problem(
                code="duplicate-level",
                field=field,
                text=f"of {cluster.name!r} names {level!r} twice",
                fix="Write each level once, the widest first.",
            )


def pools_are_in_clusters(fleet: Fleet) -> Iterator[Problem]:
    known = {cluster.name for cluster in fleet.clusters}
    for index, pool in enumerate(fleet.pools):
        if pool.cluster not in known:
            yield Problem(
                code="unknown-cluster",
                field=f"pools[{index}].cluster",
                text=f"of {pool.name!r} is {pool.cluster!r}, which does not exist",
                fix=suggest(pool.cluster, known, "cluster"),
            )


def gpus_have_a_model(fleet: Fleet) -> Iterator[Problem]:
    for index, pool in enumerate(fleet.pools):
        if pool.gpus_per_node and pool.gpu_model is None:
            yield Problem(
                code="gpus-without-model",
                field=f"pools[{index}].gpu_model",
                text=f"of {pool.name!r} is missing for {pool.gpus_per_node} GPUs on each node",
                fix="Write the model, or gpus_per_node of 0 for nodes without GPUs.",
            )
        elif pool.gpu_model is not None and not pool.gpus_per_node:
            yield Problem(
                code="model-without-gpus",
                field=f"pools[{index}].gpus_per_node",
                text=f"of {pool.name!r} is 0 though its model is {pool.gpu_model.name}",
                fix="Write how many GPUs a node has, or leave gpu_model out.",
            )


def model_names_are_unique(fleet: Fleet) -> Iterator[Problem]:
    """Flavors and requests refer to a model by name, so a name must mean one board."""
    seen: dict[str, tuple[GpuModel, Pool]] = {}
    for index, pool in enumerate(fleet.pools):
        if pool.gpu_model is None:
            continue
        first, first_pool = seen.setdefault(pool.gpu_model.name, (pool.gpu_model, pool))
        if first != pool.gpu_model:
            yield Problem(
                code="conflicting-gpu-model",
                field=f"pools[{index}].gpu_model",
                text=f"is {first.name} but differs from the {first.name} of pool {first_pool.name!r}",
                fix="Describe the model once, or give the other board another name.",
            )


def nodes_are_in_pools(fleet: Fleet) -> Iterator[Problem]:
    known = {pool.name for pool in fleet.pools}
    for index, node in enumerate(fleet.nodes):
        if node.pool not in known:
            yield Problem(
                code="unknown-pool",
                field=f"nodes[{index}].pool",
                text=f"of {node.id!r} is {node.pool!r}, which does not exist",
                fix=suggest(node.pool, known, "pool"),
            )


def nodes_have_topology_labels(fleet: Fleet) -> Iterator[Problem]:
    """Nodes without a label would all share one unnamed domain."""
    levels = {cluster.name: cluster.topology_levels for cluster in fleet.clusters}
    pools = {pool.name: pool for pool in fleet.pools}
    for index, node in enumerate(fleet.nodes):
        pool = pools.get(node.pool)
        if pool is None:
            continue
        labels = {**pool.labels, **node.labels}
        missing = [level for level in levels.get(pool.cluster, ()) if not labels.get(level)]
        if missing:
            yield Problem(
                code="missing-topology-label",
                field=f"nodes[{index}].labels",
                text=f"of {node.id!r} lack {listed(missing)}, a level of cluster {pool.cluster!r}",
                fix=f"Write which {missing[0]} the node is in, on the node or on its pool.",
            )

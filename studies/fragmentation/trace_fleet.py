"""Builds the fleet of a trace from its node list, one pool per machine type.

Published node lists have no prices. All prices are 0 here, so that only the placement policy chooses
between nodes.
"""

from __future__ import annotations

from bursar.catalog.gpu_models import find_gpu_model
from bursar.model.fleet.fleet import Cluster, Fleet, Market, Node, Pool
from bursar.model.fleet.gpu import GpuModel
from bursar.model.units import MILLI
from bursar.simulate.traces.gpu_names import ANONYMOUS
from studies.formats.openb_nodes import NodeList, TraceNode

CLUSTER = "trace"
HIDDEN_MEMORY_MIB = 32_768
"""Assumed memory of GPUs whose model is hidden; their traces request no GPU memory."""


def fleet_of_nodes(machines: NodeList) -> Fleet:
    """Returns a fleet with the machines' ids, grouped into pools of identical nodes."""
    pools: dict[str, Pool] = {}
    nodes: list[Node] = []
    for machine in machines.nodes:
        name = _pool_name(machine)
        if name not in pools:
            pools[name] = _pool(name, machine)
        nodes.append(Node(id=machine.node_id, pool=name))
    return Fleet(
        clusters=(Cluster(name=CLUSTER),),
        pools=tuple(pools[name] for name in sorted(pools)),
        nodes=tuple(nodes),
    )


def _pool_name(machine: TraceNode) -> str:
    gpus = f"{machine.gpus}x{machine.gpu_model}-" if machine.gpus else ""
    return f"{gpus}{machine.cpu_milli // MILLI}cpu-{machine.memory_mib}mib"


def _pool(name: str, machine: TraceNode) -> Pool:
    return Pool(
        name=name,
        cluster=CLUSTER,
        market=Market.OWNED,
        gpu_model=_model(machine.gpu_model) if machine.gpus else None,
        gpus_per_node=machine.gpus,
        cpu_milli=machine.cpu_milli,
        memory_mib=machine.memory_mib,
        node_micro_usd_per_hour=0,
    )


def _model(name: str) -> GpuModel:
    if not name.startswith(ANONYMOUS):
        return find_gpu_model(name)
    return GpuModel(
        name=name,
        memory_mib=HIDDEN_MEMORY_MIB,
        relative_speed_milli=MILLI,
        speed_estimated=True,
    )

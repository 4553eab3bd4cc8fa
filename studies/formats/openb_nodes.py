"""Reads the node list of Alibaba's openb cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bursar.simulate.traces.fields import RowProblem, parse_count, required
from bursar.simulate.traces.input_files import open_trace
from bursar.simulate.traces.table import Columns, Fields, table_rows
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import BadRow
from studies.formats.openb import ANONYMOUS_TYPES, gpu_models_or_anonymous

COLUMNS = Columns(required=("sn", "cpu_milli", "memory_mib", "gpu", "model"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """One machine; ``gpu_model`` is empty if it has no GPU."""

    node_id: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeList:
    """Machines in the order of the file, and the invalid rows."""

    source: str
    nodes: tuple[TraceNode, ...]
    bad_rows: tuple[BadRow, ...] = ()

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)


def read_nodes(path: str | Path) -> NodeList:
    """Reads a node list with the columns ``sn,cpu_milli,memory_mib,gpu,model``."""
    nodes: list[TraceNode] = []
    names: set[str] = set()
    with open_trace(path) as text:
        builder = TraceBuilder(text.name)
        for line, fields in table_rows(text, builder, COLUMNS):
            try:
                node = _node(fields)
            except RowProblem as problem:
                builder.reject(line, str(problem))
                continue
            if node.node_id in names:
                builder.reject(line, f"a second node has the id {node.node_id!r}")
                continue
            names.add(node.node_id)
            nodes.append(node)
    return NodeList(source=str(path), nodes=tuple(nodes), bad_rows=builder.trace().bad_rows)


def _node(fields: Fields) -> TraceNode:
    name, cpu, memory, gpus, model = fields
    count = parse_count(gpus, "gpu")
    models = gpu_models_or_anonymous(model, ANONYMOUS_TYPES)
    if count and len(models) != 1:
        raise RowProblem(f"has {count} GPUs and {len(models)} models")
    return TraceNode(
        node_id=required(name, "sn"),
        cpu_milli=parse_count(cpu, "cpu_milli"),
        memory_mib=parse_count(memory, "memory_mib"),
        gpus=count,
        gpu_model=models[0] if count else "",
    )

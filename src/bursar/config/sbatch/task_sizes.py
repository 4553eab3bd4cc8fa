"""Computes the resources of each task from the options of an sbatch script.

Slurm has nodes, tasks on them, and amounts per node, task, CPU or GPU. A job of ours has identical tasks.
With ``srun`` each Slurm task becomes one; without it each node does, because such a script starts only one
process on a node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bursar.catalog.gpu_models import find_gpu_model
from bursar.config.sbatch.options import SbatchOption
from bursar.model.errors import UserError
from bursar.model.units import GIB_MIB
from bursar.slurm_text import BadSlurmText, parse_memory_mib

Note = Callable[[SbatchOption, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Number of Slurm's nodes and of our tasks; the other fields are per task."""

    nodes: int
    tasks: int
    min_tasks: int | None
    gpus: int
    gpu_model: str | None
    cpus: int
    memory_gib: float


class Amounts:
    """Options as numbers. An option that is not a number is noted and ignored."""

    def __init__(self, options: Mapping[str, SbatchOption], note: Note) -> None:
        self._options = options
        self.note = note

    def whole(self, name: str) -> int | None:
        option = self._options.get(name)
        if option is None:
            return None
        if not re.fullmatch(r"\d{1,9}", option.value):
            self.note(option, "is not a number; write the size into the job by hand")
            return None
        return int(option.value)

    def mib(self, name: str) -> float:
        """Memory, or 0 if it is not specified."""
        option = self._options.get(name)
        if option is None:
            return 0
        try:
            memory_mib = parse_memory_mib(option.value)
        except BadSlurmText:
            self.note(option, "is not an amount of memory; write 'memory' by hand")
            return 0
        if memory_mib == 0:
            self.note(option, "means all memory of a node; write 'memory' if the job needs much")
        return memory_mib

    def nodes(self) -> tuple[int, int | None]:
        """The number of nodes, and the minimum if that is lower."""
        option = self._options.get("nodes")
        span = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", option.value) if option else None
        if option is not None and span is None:
            self.note(option, "is not a number of nodes; write 'num_nodes' by hand")
        if span is None:
            return 1, None
        low, high = int(span[1]), int(span[2] or span[1])
        return max(1, high), low if low < high else None

    def gpus(self, name: str) -> tuple[int, str | None]:
        """``4``, ``a100:4`` or, for ``gres``, ``gpu:a100:4``: number and model."""
        option = self._options.get(name)
        if option is None:
            return 0, None
        total, model = 0, None
        for item in option.value.split(","):
            words = re.sub(r"\(.*?\)", "", item).replace("=", ":").split(":")
            if name == "gres":
                words[0] = words[0].removeprefix("gres/")
                if words[0] != "gpu":
                    self.note(option, f"has {item!r}, which is not a GPU and is ignored")
                    continue
                words = words[1:]
            count = words.pop() if words and words[-1].isdigit() else "1"
            total += int(count)
            if words:
                model = self._model(words[0], option)
        return total, model

    def _model(self, name: str, option: SbatchOption) -> str | None:
        try:
            return find_gpu_model(name).name
        except UserError as error:
            self.note(option, f"names {name!r}, which is not a known GPU model: {error.fix}")
            return None


def size_of(amounts: Amounts, *, uses_srun: bool) -> Size:
    """Determine nodes and tasks, then divide the resources of a node among its tasks."""
    nodes, min_nodes = amounts.nodes()
    tasks_per_node = amounts.whole("ntasks-per-node") or 0
    total = amounts.whole("ntasks") or (tasks_per_node * nodes if tasks_per_node else nodes)
    per_node = tasks_per_node or -(-total // nodes)
    gpus_node, model = _gpus_per_node(amounts, nodes, per_node)
    cpus_task = amounts.whole("cpus-per-task") or 0
    is_split = uses_srun and per_node > 1 and gpus_node % per_node == 0
    tasks = total if is_split else nodes
    parts = per_node if is_split else 1
    gpus = gpus_node // parts
    cpus = cpus_task * (1 if is_split else per_node)
    if not cpus_task:
        cpus = (amounts.whole("cpus-per-gpu") or 0) * gpus or (
            per_node // parts if per_node > 1 else 0
        )
    memory = amounts.mib("mem") / parts or amounts.mib("mem-per-cpu") * max(1, cpus)
    memory = memory or amounts.mib("mem-per-gpu") * gpus
    return Size(
        nodes=nodes,
        tasks=tasks,
        min_tasks=None if min_nodes is None else min_nodes * tasks // nodes,
        gpus=gpus,
        gpu_model=model,
        cpus=cpus,
        memory_gib=round(memory / GIB_MIB, 3),
    )


def _gpus_per_node(amounts: Amounts, nodes: int, per_node: int) -> tuple[int, str | None]:
    for name, factor, divisor in (
        ("gpus-per-node", 1, 1),
        ("gres", 1, 1),
        ("gpus-per-task", per_node, 1),
        ("gpus", 1, nodes),
    ):
        count, model = amounts.gpus(name)
        if count:
            return -(-count * factor // divisor), model
    return 0, None


def as_resources(size: Size) -> dict[str, Any]:
    """The ``resources`` of a job file."""
    resources: dict[str, Any] = {}
    if size.gpus:
        resources["accelerators"] = f"{size.gpu_model}:{size.gpus}" if size.gpu_model else size.gpus
    if size.cpus:
        resources["cpus"] = size.cpus
    if size.memory_gib:
        whole = int(size.memory_gib)
        resources["memory"] = whole if whole == size.memory_gib else _in_mib(size.memory_gib)
    return resources


def _in_mib(gib: float) -> str:
    return f"{-(-round(gib * GIB_MIB * 1000) // 1000)} MiB"

"""Whether a GPU may be cut that way, worked out slot by slot on the memory axis."""

from __future__ import annotations

from collections import Counter

from bursar.core.check.fault import Fault
from bursar.core.check.recount import NodeCount
from bursar.model.decision import PartitionGpu
from bursar.model.fleet.gpu import Layout, MigGeometry, MigInstance


def slots(geometry: MigGeometry | None, instance: MigInstance) -> range:
    """The memory slices an instance covers; an unknown profile covers its first."""
    profile = None if geometry is None else geometry.find(instance.profile)
    width = 1 if profile is None else profile.memory_slices
    return range(instance.start, instance.start + width)


def overlap(geometry: MigGeometry | None, one: MigInstance, other: MigInstance) -> bool:
    """Whether two instances cover a memory slice both."""
    mine, theirs = slots(geometry, one), slots(geometry, other)
    return mine.start < theirs.stop and theirs.start < mine.stop


def problem_of_layout(geometry: MigGeometry | None, layout: Layout) -> str:
    """What is wrong with these instances on one board; nothing when they can stand together."""
    if not layout:
        return ""
    if geometry is None:
        return "it has no MIG"
    for instance in layout:
        profile = geometry.find(instance.profile)
        if profile is None:
            return f"it has no profile {instance.profile}"
        if instance.start not in profile.starts:
            return f"{instance} starts where it cannot"
        if slots(geometry, instance).stop > geometry.memory_slices:
            return f"{instance} ends past the last of {geometry.memory_slices} memory slices"
    for name, number in sorted(Counter(one.profile for one in layout).items()):
        if number > geometry[name].max_instances:
            return f"{number} of {name}, at most {geometry[name].max_instances} fit"
    covered: dict[int, MigInstance] = {}
    for instance in layout:
        for slot in slots(geometry, instance):
            if slot in covered:
                return f"{covered[slot]} and {instance} overlap at memory slice {slot}"
            covered[slot] = instance
    return ""


def no_such_gpu(count: NodeCount, gpu: int) -> Fault:
    """A GPU number beyond those of the node."""
    node = count.node.id
    text = f"node {node} has {count.size} GPUs; there is no GPU {gpu}"
    return Fault("unknown-gpu", node, text)


def cut(count: NodeCount, order: PartitionGpu) -> list[Fault]:
    """Cut a GPU as ordered, and say what is wrong with that."""
    device = count.device(order.gpu)
    if device is None:
        return [no_such_gpu(count, order.gpu)]
    found: list[Fault] = []
    holders = sorted({holder for holder, _ in device.held()})
    if holders:
        text = f"GPU {order.gpu} of {order.node} is to be cut while {', '.join(holders)} hold it"
        found.append(Fault("partitioned-in-use", order.node, text))
    model = count.spec.gpu_model
    problem = problem_of_layout(None if model is None else model.mig, order.layout)
    if order.layout and not count.spec.mig_allowed:
        problem = f"pool {count.spec.name} does not allow MIG"
    if problem:
        text = f"GPU {order.gpu} of {order.node} cannot be cut so: {problem}"
        found.append(Fault("impossible-layout", order.node, text))
    device.layout = order.layout
    return found

"""MIG layouts are valid, checked memory slice by memory slice."""

from __future__ import annotations

from collections import Counter

from bursar.core.check.fault import Fault
from bursar.core.check.recount import NodeCount
from bursar.model.decision import PartitionGpu
from bursar.model.fleet.gpu import Layout, MigGeometry, MigInstance


def slots(geometry: MigGeometry | None, instance: MigInstance) -> range:
    """Memory slices that an instance covers; an unknown profile covers only its first."""
    profile = None if geometry is None else geometry.find(instance.profile)
    width = 1 if profile is None else profile.memory_slices
    return range(instance.start, instance.start + width)


def overlap(geometry: MigGeometry | None, one: MigInstance, other: MigInstance) -> bool:
    """Whether two instances share a memory slice."""
    first, second = slots(geometry, one), slots(geometry, other)
    return first.start < second.stop and second.start < first.stop


def problem_of_layout(geometry: MigGeometry | None, layout: Layout) -> str:
    """Why these instances cannot share one GPU; empty if they can."""
    if not layout:
        return ""
    if geometry is None:
        return "it has no MIG"
    for instance in layout:
        profile = geometry.find(instance.profile)
        if profile is None:
            return f"it has no profile {instance.profile}"
        if instance.start not in profile.starts:
            return f"{instance} has an invalid start"
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
    """Fault for a GPU number that the node does not have."""
    node = count.node.id
    text = f"node {node} has {count.size} GPUs; there is no GPU {gpu}"
    return Fault("unknown-gpu", node, text)


def partition(count: NodeCount, order: PartitionGpu) -> list[Fault]:
    """Partitions a recounted GPU as ordered, and returns the faults."""
    device = count.device(order.gpu)
    if device is None:
        return [no_such_gpu(count, order.gpu)]
    faults: list[Fault] = []
    holders = sorted({holder for holder, _ in device.uses})
    if holders:
        text = (
            f"GPU {order.gpu} of {order.node} is repartitioned while in use by {', '.join(holders)}"
        )
        faults.append(Fault("partitioned-in-use", order.node, text))
    model = count.spec.gpu_model
    problem = problem_of_layout(None if model is None else model.mig, order.layout)
    if order.layout and not count.spec.mig_allowed:
        problem = f"pool {count.spec.name} does not allow MIG"
    if problem:
        text = f"GPU {order.gpu} of {order.node} cannot have this MIG layout: {problem}"
        faults.append(Fault("impossible-layout", order.node, text))
    device.layout = order.layout
    return faults

"""A second, slow implementation of the ledger's rules, to compare the meter with.

It uses exact fractions and recomputes everything for each interval between two events. What the meter posts
must agree to a micro-dollar per interval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction

from bursar.core.quota.charge import MILLI_PER_PERCENT
from bursar.core.state.fleet_state import FleetState
from bursar.model.event import Event, FleetDeclared
from bursar.model.fleet.fleet import Pool
from bursar.model.fleet.gpu import slice_milli
from bursar.model.jobs.attempt import Task
from bursar.model.units import HOUR_MS, MILLI

Costs = dict[str, Fraction]


def holds_of(state: FleetState, node_id: str) -> dict[str, list[Task]]:
    """The tasks on a node by job, from the scheduler's state; foreign usage is ``(foreign)``."""
    tasks: dict[str, list[Task]] = defaultdict(list)
    for record in state.live():
        assert record.placement is not None
        for task in record.placement.all_tasks:
            if task.node == node_id:
                tasks[record.id].append(task)
    foreign = state.node(node_id).foreign
    if foreign is not None:
        tasks["(foreign)"].append(foreign)
    return tasks


def fractions_of(holds: Mapping[str, list[Task]], shape: Pool) -> dict[str, Fraction]:
    """Each holder's fraction of a node."""
    on_gpu: dict[int, int] = defaultdict(int)
    for tasks in holds.values():
        for task in tasks:
            for gpu, milli in gpus_of(task, shape):
                on_gpu[gpu] += milli
    fractions = {
        holder: sum((fraction_of(task, shape, on_gpu) for task in tasks), Fraction(0))
        for holder, tasks in holds.items()
    }
    total = sum(fractions.values(), Fraction(0))
    return {holder: fraction / max(Fraction(1), total) for holder, fraction in fractions.items()}


def fraction_of(task: Task, shape: Pool, on_gpu: Mapping[int, int]) -> Fraction:
    cpu = Fraction(task.cpu_milli, max(1, shape.cpu_milli))
    memory = Fraction(task.memory_mib, max(1, shape.memory_mib))
    gpu = sum(
        (Fraction(milli, max(MILLI, on_gpu[gpu])) for gpu, milli in gpus_of(task, shape)),
        Fraction(0),
    )
    return min(Fraction(1), max(cpu, memory, gpu / max(1, shape.gpus_per_node)))


def gpus_of(task: Task, shape: Pool) -> list[tuple[int, int]]:
    held = [(gpu, MILLI) for gpu in task.gpus]
    for use in task.slices:
        assert shape.gpu_model is not None and shape.gpu_model.mig is not None
        held.append((use.gpu, slice_milli(shape.gpu_model.mig, use.instance.profile)))
    held += [(share.gpu, share.percent * MILLI_PER_PERCENT) for share in task.shares]
    return held


def plain_costs(
    declared: FleetDeclared, log: Iterable[Event], until_ms: int
) -> tuple[Costs, Costs, int]:
    """The cost of every holder, the cost of every node, and the number of intervals."""
    state = FleetState(declared.fleet, declared.tenants, declared.policies)
    holders: Costs = defaultdict(Fraction)
    nodes: Costs = defaultdict(Fraction)
    now_ms, intervals = declared.at_ms, 0

    def pass_time(at_ms: int) -> None:
        for name, pool in state.pool_of_node.items():
            cost = Fraction(pool.spec.node_micro_usd_per_hour * (at_ms - now_ms), HOUR_MS)
            nodes[name] += cost
            for holder, fraction in fractions_of(holds_of(state, name), pool.spec).items():
                holders[holder] += cost * fraction

    for event in log:
        if event.at_ms > now_ms:
            pass_time(event.at_ms)
            now_ms = event.at_ms
        intervals += 1
        state.apply(event)
    pass_time(until_ms)
    return holders, nodes, intervals

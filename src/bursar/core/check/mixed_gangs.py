"""Enough tasks of a mixed gang are anchors in one non-spot pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bursar.core.check.fault import Fault
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.attempt import Placement


def anchor_faults(state: FleetState, record: JobRecord, placement: Placement) -> list[Fault]:
    """Faults between the spot tasks and the anchors; each pool is checked alone elsewhere."""
    unknown = [part.pool for part in placement.parts if part.pool not in state.pools]
    if unknown:
        return [unknown_pool(record.id, pool) for pool in unknown]
    return [*_mix_faults(state, record, placement), *_count_faults(state, record, placement)]


def unknown_pool(job_id: str, pool: str) -> Fault:
    """Fault for a placement in a pool that the fleet does not have."""
    return Fault("unknown-pool", job_id, f"{job_id} is placed in pool {pool}, which does not exist")


def _mix_faults(state: FleetState, record: JobRecord, placement: Placement) -> Iterator[Fault]:
    anchors = placement.anchors
    if anchors is None:
        return
    spot, stable = state.pools[placement.pool].spec, state.pools[anchors.pool].spec
    model, stable_model = spot.gpu_model, stable.gpu_model
    for is_wrong, problem in (
        (not record.spec.constraints.anchors_percent, "it requests no anchors"),
        (spot.market is not Market.SPOT, f"{spot.name} is not spot"),
        (stable.market is Market.SPOT, f"{stable.name} is spot"),
        (spot.cluster != stable.cluster, "the pools are in two clusters"),
        (
            (model and model.name) != (stable_model and stable_model.name),
            "the pools have two GPU models",
        ),
        (anchors.anchors is not None, "anchors have anchors"),
        (not placement.tasks or not anchors.tasks, "one of the pools has no task"),
    ):
        if is_wrong:
            text = f"{record.id} is placed in {placement.pool} with anchors in {anchors.pool}: {problem}"
            yield Fault("wrong-pool-pair", record.id, text)


def _count_faults(state: FleetState, record: JobRecord, placement: Placement) -> Iterator[Fault]:
    """Too few anchors per group; the percentage is of the tasks placed, as gangs may be elastic."""
    percent = record.spec.constraints.anchors_percent
    all_tasks: Counter[str] = Counter()
    anchor_tasks: Counter[str] = Counter()
    for part in placement.parts:
        is_anchor = state.pools[part.pool].spec.market is not Market.SPOT
        for task in part.tasks:
            all_tasks[task.group] += task.count
            anchor_tasks[task.group] += task.count if is_anchor else 0
    for group, tasks in sorted(all_tasks.items()):
        if 100 * anchor_tasks[group] < percent * tasks:
            text = (
                f"{record.id} has {anchor_tasks[group]} of {tasks} tasks of {group} on non-spot "
                f"capacity; at least {percent} % is required"
            )
            yield Fault("too-few-anchors", record.id, text)

"""A job that wants anchors has enough of them on capacity that stays, in one pool beside the spot pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bursar.core.check.fault import Fault
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.attempt import Placement


def anchor_faults(state: FleetState, record: JobRecord, placement: Placement) -> list[Fault]:
    """What is wrong with the parts of a placement beside each other; each by itself is checked elsewhere."""
    unknown = [part.pool for part in placement.parts if part.pool not in state.pools]
    if unknown:
        return [unknown_pool(record.id, pool) for pool in unknown]
    return [*_mix_faults(state, record, placement), *_count_faults(state, record, placement)]


def unknown_pool(job_id: str, pool: str) -> Fault:
    """A placement in a pool that the fleet does not have."""
    return Fault("unknown-pool", job_id, f"{job_id} is put into pool {pool}, which does not exist")


def _mix_faults(state: FleetState, record: JobRecord, placement: Placement) -> Iterator[Fault]:
    anchors = placement.anchors
    if anchors is None:
        return
    one, other = state.pools[placement.pool].spec, state.pools[anchors.pool].spec
    model, others_model = one.gpu_model, other.gpu_model
    for is_wrong, problem in (
        (not record.spec.constraints.anchors_percent, "it asks for none"),
        (one.market is not Market.SPOT, f"{one.name} is not spot"),
        (other.market is Market.SPOT, f"{other.name} is spot"),
        (one.cluster != other.cluster, "they are of two clusters"),
        ((model and model.name) != (others_model and others_model.name), "they have two models"),
        (anchors.anchors is not None, "anchors have anchors"),
        (not placement.tasks or not anchors.tasks, "one of them holds no task"),
    ):
        if is_wrong:
            text = f"{record.id} is put into {placement.pool} with anchors in {anchors.pool}: {problem}"
            yield Fault("wrong-pool-pair", record.id, text)


def _count_faults(state: FleetState, record: JobRecord, placement: Placement) -> Iterator[Fault]:
    """Of each group, by the tasks that are started: an elastic gang may have fewer than it asks for."""
    percent = record.spec.constraints.anchors_percent
    everywhere: Counter[str] = Counter()
    steady: Counter[str] = Counter()
    for part in placement.parts:
        stays = state.pools[part.pool].spec.market is not Market.SPOT
        for task in part.tasks:
            everywhere[task.group] += task.count
            steady[task.group] += task.count if stays else 0
    for group, tasks in sorted(everywhere.items()):
        if 100 * steady[group] < percent * tasks:
            text = (
                f"{record.id} has {steady[group]} of {tasks} tasks of {group} on capacity that "
                f"stays; at least {percent} % must be"
            )
            yield Fault("too-few-anchors", record.id, text)

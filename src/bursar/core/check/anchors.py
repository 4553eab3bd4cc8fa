"""A job that wants anchors has enough of them on capacity that stays, in one pool beside the spot pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from bursar.core.check.site_faults import UnknownPool
from bursar.core.line import JobRecord
from bursar.core.state import FleetState
from bursar.model.attempt import Placement
from bursar.model.fleet import Market


@dataclass(frozen=True, slots=True, kw_only=True)
class TooFewAnchors:
    job_id: str
    group: str
    tasks: int
    anchors: int
    percent: int

    def __str__(self) -> str:
        return (
            f"{self.job_id} has {self.anchors} of {self.tasks} tasks of {self.group} on capacity that "
            f"stays; at least {self.percent} % must be"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongMix:
    """Two pools that no gang may stand in at once."""

    job_id: str
    pool: str
    anchors: str
    problem: str

    def __str__(self) -> str:
        return (
            f"{self.job_id} is put into {self.pool} with anchors in {self.anchors}: {self.problem}"
        )


AnchorFault = TooFewAnchors | UnknownPool | WrongMix


def anchor_faults(state: FleetState, record: JobRecord, placement: Placement) -> list[AnchorFault]:
    """What is wrong with the parts of a placement beside each other; each by itself is checked elsewhere."""
    unknown = [part.pool for part in placement.parts if part.pool not in state.pools]
    if unknown:
        return [UnknownPool(job_id=record.id, pool=pool) for pool in unknown]
    return [*_mix_faults(state, record, placement), *_count_faults(state, record, placement)]


def _mix_faults(
    state: FleetState, record: JobRecord, placement: Placement
) -> Iterator[AnchorFault]:
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
            yield WrongMix(
                job_id=record.id, pool=placement.pool, anchors=anchors.pool, problem=problem
            )


def _count_faults(
    state: FleetState, record: JobRecord, placement: Placement
) -> Iterator[AnchorFault]:
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
            yield TooFewAnchors(
                job_id=record.id, group=group, tasks=tasks, anchors=steady[group], percent=percent
            )

"""What a study changes in the jobs of a trace beyond what the trace says: where they run, and as what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bursar.model.errors import UserError
from bursar.model.event import Event, JobSubmitted
from bursar.model.fleet.fleet import Fleet
from bursar.model.fleet.gpu import MigGeometry, MigProfile
from bursar.model.jobs.job import Constraints, GpuRequest, MigSlice, MpsShare, TaskGroup
from bursar.model.units import MILLI

NEARLY_MILLI = 10
"""A seventh of a GPU is written as 15 % and still means one slice of seven."""


def pinned(events: Iterable[Event], label: str) -> Iterator[Event]:
    """Each job only on nodes that are labelled with its queue."""
    places: dict[tuple[str, Constraints], Constraints] = {}
    for event in events:
        if isinstance(event, JobSubmitted):
            spec = event.spec
            key = spec.queue, spec.constraints
            if key not in places:
                labels = (*spec.constraints.node_labels, (label, spec.queue))
                places[key] = replace(spec.constraints, node_labels=labels)
            event = replace(event, spec=replace(spec, constraints=places[key]))
        yield event


def with_slices(events: Iterable[Event], fleet: Fleet) -> Iterator[Event]:
    """Jobs that ask for a part of a GPU get a MIG slice of at least that size, not a share."""
    geometry = _geometry(fleet)
    slices: dict[TaskGroup, TaskGroup] = {}
    for event in events:
        if isinstance(event, JobSubmitted):
            groups = event.spec.groups
            if any(isinstance(group.gpu, MpsShare) for group in groups):
                for group in groups:
                    if group not in slices:
                        slices[group] = replace(group, gpu=_as_slice(group.gpu, geometry))
                changed = tuple(slices[group] for group in groups)
                event = replace(event, spec=replace(event.spec, groups=changed))
        yield event


def _geometry(fleet: Fleet) -> MigGeometry:
    """How the first pool is cut that can be: profiles have other names on other boards."""
    for pool in sorted(fleet.pools, key=lambda pool: pool.name):
        if pool.mig_allowed and pool.gpu_model is not None and pool.gpu_model.mig is not None:
            return pool.gpu_model.mig
    raise UserError(
        "No pool of the fleet has GPUs that may be cut by MIG.",
        fix="Leave --mig out, or add a pool of A100s, H100s or the like.",
        code="no-mig",
    )


def _as_slice(request: GpuRequest | None, geometry: MigGeometry) -> GpuRequest | None:
    if not isinstance(request, MpsShare):
        return request
    wanted_milli = request.percent * MILLI // 100
    cuts = [one for one in geometry.profiles if not one.has_media_engines]
    large = [one for one in cuts if _part_milli(one, geometry) + NEARLY_MILLI >= wanted_milli]
    chosen = min(large, key=lambda one: (one.compute_slices, one.memory_slices, one.name))
    return MigSlice(profile=chosen.name, models=request.models)


def _part_milli(profile: MigProfile, geometry: MigGeometry) -> int:
    return MILLI * profile.compute_slices // geometry.compute_slices

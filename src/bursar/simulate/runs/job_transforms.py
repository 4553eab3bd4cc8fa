"""Changes to the jobs of a trace: pinned to nodes, or with MIG slices for GPU shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bursar.model.errors import UserError
from bursar.model.event import Event, JobSubmitted
from bursar.model.fleet.fleet import Fleet
from bursar.model.fleet.gpu import MigGeometry, MigProfile
from bursar.model.jobs.job import Constraints, GpuRequest, MigSlice, MpsShare, TaskGroup
from bursar.model.units import MILLI

TOLERANCE_MILLI = 10
"""A seventh of a GPU is written as 15 % and still fits one slice of seven."""


def pinned(events: Iterable[Event], label: str) -> Iterator[Event]:
    """Restricts each job to nodes that are labelled with its queue."""
    constraints: dict[tuple[str, Constraints], Constraints] = {}
    for event in events:
        if isinstance(event, JobSubmitted):
            spec = event.spec
            key = spec.queue, spec.constraints
            if key not in constraints:
                labels = (*spec.constraints.node_labels, (label, spec.queue))
                constraints[key] = replace(spec.constraints, node_labels=labels)
            event = replace(event, spec=replace(spec, constraints=constraints[key]))
        yield event


def with_slices(events: Iterable[Event], fleet: Fleet) -> Iterator[Event]:
    """Replaces GPU shares by MIG slices of at least their size."""
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
    """The MIG geometry of the first pool with MIG; profile names differ between GPU models."""
    for pool in sorted(fleet.pools, key=lambda pool: pool.name):
        if pool.mig_allowed and pool.gpu_model is not None and pool.gpu_model.mig is not None:
            return pool.gpu_model.mig
    raise UserError(
        "No pool of the fleet has GPUs with MIG.",
        fix="Omit --mig, or add a pool of GPUs with MIG, such as A100 or H100.",
        code="no-mig",
    )


def _as_slice(request: GpuRequest | None, geometry: MigGeometry) -> GpuRequest | None:
    if not isinstance(request, MpsShare):
        return request
    wanted_milli = request.percent * MILLI // 100
    profiles = [one for one in geometry.profiles if not one.has_media_engines]
    fitting = [
        one for one in profiles if _size_milli(one, geometry) + TOLERANCE_MILLI >= wanted_milli
    ]
    chosen = min(fitting, key=lambda one: (one.compute_slices, one.memory_slices, one.name))
    return MigSlice(profile=chosen.name, models=request.models)


def _size_milli(profile: MigProfile, geometry: MigGeometry) -> int:
    return MILLI * profile.compute_slices // geometry.compute_slices

"""A MIG layout asked for by hand must be one that the board can have, on a GPU nobody uses."""

from __future__ import annotations

from collections.abc import Iterator

from bursar.core.admission.problem import Problem, listed, suggest
from bursar.core.state import FleetState
from bursar.model.event import GpuPartitioned
from bursar.model.gpu import Layout, MigGeometry
from bursar.model.mig_layout import (
    LayoutFault,
    OverlappingInstances,
    TooManyInstances,
    UnknownProfile,
    WrongStart,
    layout_fault,
    layouts,
)

LAYOUTS_SHOWN = 4
CODES: dict[type[LayoutFault], str] = {
    UnknownProfile: "unknown-mig-profile",
    WrongStart: "wrong-mig-start",
    TooManyInstances: "too-many-mig-instances",
    OverlappingInstances: "overlapping-mig",
}


def partition_problems(event: GpuPartitioned, state: FleetState) -> Iterator[Problem]:
    """What stands between this GPU and this layout."""
    pool = state.pool_of_node.get(event.node)
    if pool is None:
        yield Problem(
            code="unknown-node",
            field="node",
            text=f"is {event.node!r}, which does not exist",
            fix=suggest(event.node, state.pool_of_node, "node"),
        )
        return
    spec = pool.spec
    if event.gpu >= spec.gpus_per_node or spec.gpu_model is None:
        last = spec.gpus_per_node - 1
        yield Problem(
            code="unknown-gpu",
            field="gpu",
            text=f"is {event.gpu}, but {event.node!r} has {spec.gpus_per_node} GPUs",
            fix=f"Write 0 to {last}." if last >= 0 else "Choose a node with GPUs.",
        )
        return
    device = pool.by_id[event.node].devices[event.gpu]
    if not device.is_vacant:
        yield Problem(
            code="gpu-in-use",
            field="gpu",
            text=f"{event.gpu} of {event.node!r} is held by {listed(device.holders, 3)}",
            fix="Drain the node, or choose a GPU without holders.",
        )
    geometry = spec.gpu_model.mig
    if event.layout and (geometry is None or not spec.mig_allowed):
        why = "its pool does not allow it" if geometry else f"{spec.gpu_model.name} has no MIG"
        yield Problem(
            code="no-mig",
            field="layout",
            text=f"cuts a GPU of {event.node!r}, but {why}",
            fix="Leave the layout empty, or choose a node of another pool.",
        )
    elif geometry is not None:
        yield from layout_problems(geometry, event.layout)


def layout_problems(geometry: MigGeometry, layout: Layout) -> Iterator[Problem]:
    """What is wrong with a layout on its own, and layouts that are near it and right."""
    fault = layout_fault(geometry, layout)
    if fault is None:
        return
    if isinstance(fault, UnknownProfile):
        fix = suggest(fault.profile, geometry.profile_names, "MIG profile")
    else:
        near = sorted(layouts(geometry), key=lambda one: (-len(set(one) & set(layout)), len(one)))
        shown = (" + ".join(str(instance) for instance in one) for one in near[:LAYOUTS_SHOWN])
        fix = f"Legal and near: {'; '.join(shown)}."
    yield Problem(code=CODES[type(fault)], field="layout", text=f"is impossible: {fault}", fix=fix)

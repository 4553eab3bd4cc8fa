"""An entry of the timeline, and text for placements, sizes and times of day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import Hold
from bursar.model.fleet.gpu import Layout
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import JobSpec, MigSlice, MpsShare, WholeGpus
from bursar.model.reason import NoCapacity
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, counted

NODES_NAMED = 4


class Verb(StrEnum):
    """What happened: the second column."""

    START = "start"
    HOLD = "hold"
    PREEMPT = "preempt"
    CLAIM = "claim"
    PARTITION = "partition"
    STOP = "stop"
    BORROW = "borrow"
    QUOTA = "quota"


class Importance(IntEnum):
    """Which entries a short timeline shows first."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One entry; it takes several lines when there are several reasons."""

    at_ms: int
    verb: Verb
    subject: str
    sentences: tuple[str, ...]
    importance: Importance


def time_of_day(at_ms: int) -> str:
    """``14:05``; on later days ``14:05+1``."""
    days, rest = divmod(at_ms, DAY_MS)
    text = f"{rest // HOUR_MS:02}:{rest % HOUR_MS // MINUTE_MS:02}"
    return f"{text}+{days}" if days else text


def write_size(spec: JobSpec) -> str:
    """What a job requests: ``4 x 8 GPUs``, ``a 1g.10gb slice``, ``25 % of a GPU``."""
    parts = []
    for group in spec.groups:
        match group.gpu:
            case WholeGpus(count=count):
                text = counted(count, "GPU")
            case MigSlice(profile=profile):
                text = f"a {profile} slice"
            case MpsShare(percent=percent):
                text = f"{percent} % of a GPU"
            case _:
                text = "no GPU"
        tasks = f"{group.min_count} to {group.count}" if group.min_count else f"{group.count}"
        parts.append(text if group.count == 1 else f"{tasks} x {text}")
    return " and ".join(parts)


def write_layout(layout: Layout) -> str:
    """A MIG layout with its instances counted: ``4 x 1g.10gb + 3g.40gb``."""
    counts = Counter(instance.profile for instance in layout)
    return " + ".join(
        profile if count == 1 else f"{count} x {profile}" for profile, count in counts.items()
    )


def write_reasons(hold: Hold) -> Iterator[str]:
    """Each reason of a hold, with the planned start."""
    for reason in hold.reasons:
        text = str(reason)
        if isinstance(reason, NoCapacity) and reason.expected_at_ms is not None:
            text += f"; planned to start at {time_of_day(reason.expected_at_ms)}"
        yield text


def gpus_of(spec: JobSpec) -> int:
    """Whole GPUs that a job requests."""
    return sum(g.count * g.gpu.count for g in spec.groups if isinstance(g.gpu, WholeGpus))


def write_placement(state: FleetState, placement: Placement) -> str:
    """Where a gang runs: devices and node, or nodes and their common topology domain."""
    if placement.anchors is not None:
        spot = write_placement(state, replace(placement, anchors=None))
        return f"{spot} with anchors on {write_placement(state, placement.anchors)}"
    tasks = placement.tasks
    if len(tasks) == 1:
        return f"{_devices(tasks[0])}{tasks[0].node}"
    nodes = sorted({task.node for task in tasks})
    named = ", ".join(nodes[:NODES_NAMED])
    if len(nodes) > NODES_NAMED:
        named += f" and {len(nodes) - NODES_NAMED} more"
    return named + _shared_domain(state, placement.pool, nodes)


def _devices(task: Task) -> str:
    if task.slices:
        return "GPU " + ", ".join(f"{use.gpu} ({use.instance})" for use in task.slices) + " of "
    if task.shares:
        return "GPU " + ", ".join(str(use.gpu) for use in task.shares) + " of "
    return ""


def _shared_domain(state: FleetState, pool_name: str, nodes: Sequence[str]) -> str:
    """The narrowest topology domain that contains all the nodes."""
    pool = state.pools[pool_name]
    for level in reversed(pool.levels[:-1]):
        domains = {pool.by_id[node].labels.get(level, "") for node in nodes if node in pool.by_id}
        if len(domains) == 1:
            return f" ({level} {min(domains)})"
    return ""

"""Smaller or different specs for a job, each with the size of the change.

A change that leaves the job's resources as they are weighs less than one that reduces them. Whether a
change helps is tried in ``alternatives.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import GpuRequest, JobSpec, MigSlice, MpsShare, TaskGroup, WholeGpus
from bursar.model.reason import Reason, WouldDelay
from bursar.model.units import (
    HOUR_MS,
    MILLI,
    MINUTE_MS,
    round_up_run_time_ms,
    write_duration,
    write_gpus,
)

LOOSER_TOPOLOGY, OTHER_MARKET, SPOT_MARKET, OTHER_QUEUE, OTHER_MODEL = 100, 200, 250, 300, 400
SHORTER, LESS, MARKET_AND_MODEL = 500, 1_000, 900
"""Weights of changes; a reduction is added in thousandths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecChange:
    """Another spec, the change as text, and its weight."""

    text: str
    spec: JobSpec
    weight: int


def loosen_topology(spec: JobSpec) -> list[SpecChange]:
    """Makes a required topology level a preferred one."""
    topology = spec.constraints.topology
    if topology is None or topology.required is None:
        return []
    loose = replace(topology, required=None, preferred=topology.required)
    text = f"{topology.required} preferred instead of required"
    constraints = replace(spec.constraints, topology=loose)
    return [
        SpecChange(text=text, spec=replace(spec, constraints=constraints), weight=LOOSER_TOPOLOGY)
    ]


def allow_markets(spec: JobSpec, markets: Iterable[Market]) -> list[SpecChange]:
    """Allows one more market, as the last choice."""
    return [
        SpecChange(
            text=f"{market} capacity allowed",
            spec=_with_market(spec, market),
            weight=SPOT_MARKET if market is Market.SPOT else OTHER_MARKET,
        )
        for market in Market
        if market in set(markets) and market not in spec.constraints.markets
    ]


def move_to_queues(spec: JobSpec, queues: Iterable[str]) -> list[SpecChange]:
    """Moves the job to another queue."""
    return [
        SpecChange(text=f"queue {queue}", spec=replace(spec, queue=queue), weight=OTHER_QUEUE)
        for queue in sorted(queues)
        if queue != spec.queue
    ]


def use_models(spec: JobSpec, models: Iterable[str]) -> list[SpecChange]:
    """Uses another GPU model, with any amount of memory."""
    return [
        SpecChange(text=f"on {model}", spec=_with_model(spec, model), weight=OTHER_MODEL)
        for model in models
        if model not in _models(spec) and any(group.gpu is not None for group in spec.groups)
    ]


def use_flavors(spec: JobSpec, flavors: Iterable[tuple[str, Market]]) -> list[SpecChange]:
    """Uses another GPU model in a market that was not allowed."""
    return [
        SpecChange(
            text=f"on {model}, {market} capacity allowed",
            spec=_with_market(_with_model(spec, model), market),
            weight=MARKET_AND_MODEL,
        )
        for model, market in flavors
        if model not in _models(spec) and market not in spec.constraints.markets
    ]


def shorten(spec: JobSpec, reasons: Iterable[Reason], run_ms: int) -> list[SpecChange]:
    """Limits the run time so that the job ends before the reservations it would delay."""
    waits = [one.wait_ms for one in reasons if isinstance(one, WouldDelay)]
    limits = {limit_ms for wait_ms in waits if 0 < (limit_ms := _limit_within(wait_ms)) < run_ms}
    before = "no limit" if spec.max_run_ms is None else write_duration(spec.max_run_ms)
    return [
        SpecChange(
            text=f"a limit of {write_duration(limit_ms)} instead of {before}",
            spec=replace(
                spec,
                max_run_ms=limit_ms,
                expected_run_ms=min(spec.expected_run_ms or limit_ms, limit_ms),
            ),
            weight=SHORTER + (run_ms - limit_ms) * MILLI // run_ms,
        )
        for limit_ms in sorted(limits, reverse=True)
    ]


def gpu_counts(spec: JobSpec) -> Sequence[int]:
    """Smaller GPU counts for a task of the largest group, largest first.

    Every smaller number up to eight, halves above.
    """
    request = spec.groups[_largest_group(spec)].gpu
    if not isinstance(request, WholeGpus):
        return ()
    if request.count <= 8:
        return range(request.count - 1, 0, -1)
    halves = [request.count // 2]
    while halves[-1] > 1:
        halves.append(halves[-1] // 2)
    return halves


def with_gpus(spec: JobSpec, count: int) -> SpecChange:
    """Changes the GPU count of each task of the largest group."""
    index = _largest_group(spec)
    group = spec.groups[index]
    assert isinstance(group.gpu, WholeGpus)
    before = group.gpu.count
    each = " for each task" if group.count > 1 else ""
    return SpecChange(
        text=f"{write_gpus(count * MILLI)} instead of {before}{each}",
        spec=_with_group(spec, index, replace(group, gpu=replace(group.gpu, count=count))),
        weight=LESS + (before - count) * MILLI // before,
    )


def task_counts(spec: JobSpec) -> Sequence[int]:
    """Smaller task counts for the largest group, largest first."""
    group = spec.groups[_largest_group(spec)]
    least = group.count if group.min_count is None else group.min_count
    return range(least - 1, 0, -1)


def with_tasks(spec: JobSpec, count: int) -> SpecChange:
    """Changes the task count of the largest group."""
    index = _largest_group(spec)
    group = spec.groups[index]
    return SpecChange(
        text=f"fewer tasks: {count} of {group.count}",
        spec=_with_group(spec, index, replace(group, count=count, min_count=None)),
        weight=LESS + (group.count - count) * MILLI // group.count,
    )


def _limit_within(wait_ms: int) -> int:
    """The longest round limit that is within a wait after rounding up to the planning grid."""
    unit = 15 * MINUTE_MS if wait_ms >= 2 * HOUR_MS else MINUTE_MS
    limit_ms = wait_ms // unit * unit
    while limit_ms > 0 and round_up_run_time_ms(limit_ms) > wait_ms:
        limit_ms -= unit
    return limit_ms


def _largest_group(spec: JobSpec) -> int:
    def size(index: int) -> tuple[int, int, int]:
        group = spec.groups[index]
        gpus = group.gpu.count if isinstance(group.gpu, WholeGpus) else int(group.gpu is not None)
        return gpus * group.count, group.count, -index

    return max(range(len(spec.groups)), key=size)


def _models(spec: JobSpec) -> set[str]:
    return {model for group in spec.groups if group.gpu is not None for model in group.gpu.models}


def _with_group(spec: JobSpec, index: int, group: TaskGroup) -> JobSpec:
    return replace(spec, groups=(*spec.groups[:index], group, *spec.groups[index + 1 :]))


def _with_market(spec: JobSpec, market: Market) -> JobSpec:
    markets = (*spec.constraints.markets, market)
    return replace(spec, constraints=replace(spec.constraints, markets=markets))


def _with_model(spec: JobSpec, model: str) -> JobSpec:
    groups = tuple(
        group if group.gpu is None else replace(group, gpu=_of_model(group.gpu, model))
        for group in spec.groups
    )
    return replace(spec, groups=groups)


def _of_model(request: GpuRequest, model: str) -> GpuRequest:
    if isinstance(request, WholeGpus):
        return replace(request, models=(model,), min_memory_mib=0)
    assert isinstance(request, MigSlice | MpsShare)
    return replace(request, models=(model,))

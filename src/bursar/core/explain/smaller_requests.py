"""Smaller or different things a user could have asked for, each with how large a change it is.

A change that keeps the work as it is weighs less than one that gives the job less to work with. Nothing
here knows whether a change helps: ``alternatives.py`` tries that.
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
"""Weights of changes. What is lost, in thousandths, is added where something is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecChange:
    """Another spec, what is different about it in words, and how much that is."""

    words: str
    spec: JobSpec
    weight: int


def loosen_topology(spec: JobSpec) -> list[SpecChange]:
    """Together if possible, instead of together or not at all."""
    topology = spec.constraints.topology
    if topology is None or topology.required is None:
        return []
    loose = replace(topology, required=None, preferred=topology.required)
    words = f"{topology.required} preferred instead of required"
    constraints = replace(spec.constraints, topology=loose)
    return [
        SpecChange(words=words, spec=replace(spec, constraints=constraints), weight=LOOSER_TOPOLOGY)
    ]


def allow_markets(spec: JobSpec, markets: Iterable[Market]) -> list[SpecChange]:
    """One more purchase option, at the end of the job's own order."""
    return [
        SpecChange(
            words=f"{market} capacity allowed",
            spec=_with_market(spec, market),
            weight=SPOT_MARKET if market is Market.SPOT else OTHER_MARKET,
        )
        for market in Market
        if market in set(markets) and market not in spec.constraints.markets
    ]


def move_to_queues(spec: JobSpec, queues: Iterable[str]) -> list[SpecChange]:
    """The same job on another queue's account."""
    return [
        SpecChange(words=f"queue {queue}", spec=replace(spec, queue=queue), weight=OTHER_QUEUE)
        for queue in sorted(queues)
        if queue != spec.queue
    ]


def use_models(spec: JobSpec, models: Iterable[str]) -> list[SpecChange]:
    """Another GPU model, with whatever memory it has."""
    return [
        SpecChange(words=f"on {model}", spec=_with_model(spec, model), weight=OTHER_MODEL)
        for model in models
        if model not in _models(spec) and any(group.gpu is not None for group in spec.groups)
    ]


def use_flavors(spec: JobSpec, flavors: Iterable[tuple[str, Market]]) -> list[SpecChange]:
    """Another GPU model on a purchase option that was not allowed."""
    return [
        SpecChange(
            words=f"on {model}, {market} capacity allowed",
            spec=_with_market(_with_model(spec, model), market),
            weight=MARKET_AND_MODEL,
        )
        for model, market in flavors
        if model not in _models(spec) and market not in spec.constraints.markets
    ]


def shorten(spec: JobSpec, reasons: Iterable[Reason], run_ms: int) -> list[SpecChange]:
    """A limit that lets the job end before those it would delay want to start."""
    waits = [one.wait_ms for one in reasons if isinstance(one, WouldDelay)]
    limits = {limit_ms for wait_ms in waits if 0 < (limit_ms := _limit_within(wait_ms)) < run_ms}
    before = "no limit" if spec.max_run_ms is None else write_duration(spec.max_run_ms)
    return [
        SpecChange(
            words=f"a limit of {write_duration(limit_ms)} instead of {before}",
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
    """How many GPUs a task of the largest group could do with instead, most first.

    Every smaller number up to eight, halves above: nobody trains on 13 of 16.
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
    """So many GPUs for each task of the largest group."""
    place = _largest_group(spec)
    group = spec.groups[place]
    assert isinstance(group.gpu, WholeGpus)
    had = group.gpu.count
    each = " for each task" if group.count > 1 else ""
    return SpecChange(
        words=f"{write_gpus(count * MILLI)} instead of {had}{each}",
        spec=_with_group(spec, place, replace(group, gpu=replace(group.gpu, count=count))),
        weight=LESS + (had - count) * MILLI // had,
    )


def task_counts(spec: JobSpec) -> Sequence[int]:
    """How many tasks of the largest group there could be instead, most first."""
    group = spec.groups[_largest_group(spec)]
    least = group.count if group.min_count is None else group.min_count
    return range(least - 1, 0, -1)


def with_tasks(spec: JobSpec, count: int) -> SpecChange:
    """So many tasks of the largest group."""
    place = _largest_group(spec)
    group = spec.groups[place]
    return SpecChange(
        words=f"fewer tasks: {count} of {group.count}",
        spec=_with_group(spec, place, replace(group, count=count, min_count=None)),
        weight=LESS + (group.count - count) * MILLI // group.count,
    )


def _limit_within(wait_ms: int) -> int:
    """The longest limit in round numbers whose place on the planning grid is within a wait."""
    unit = 15 * MINUTE_MS if wait_ms >= 2 * HOUR_MS else MINUTE_MS
    limit_ms = wait_ms // unit * unit
    while limit_ms > 0 and round_up_run_time_ms(limit_ms) > wait_ms:
        limit_ms -= unit
    return limit_ms


def _largest_group(spec: JobSpec) -> int:
    def size(place: int) -> tuple[int, int, int]:
        group = spec.groups[place]
        gpus = group.gpu.count if isinstance(group.gpu, WholeGpus) else int(group.gpu is not None)
        return gpus * group.count, group.count, -place

    return max(range(len(spec.groups)), key=size)


def _models(spec: JobSpec) -> set[str]:
    return {model for group in spec.groups if group.gpu is not None for model in group.gpu.models}


def _with_group(spec: JobSpec, place: int, group: TaskGroup) -> JobSpec:
    return replace(spec, groups=(*spec.groups[:place], group, *spec.groups[place + 1 :]))


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

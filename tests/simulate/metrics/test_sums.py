"""Incremental sums equal a full recount at every step."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from itertools import pairwise

import pytest

from bursar.core.quota.charge import gpu_milli_held
from bursar.core.state.fleet_state import FleetState
from bursar.model.event import JobSubmitted
from bursar.model.fleet.gpu import slice_milli
from bursar.model.jobs.job import JobState
from bursar.model.units import HOUR_MS, MILLI
from bursar.simulate.metrics import RunMetrics, Series
from bursar.simulate.metrics.samples import MOST_POINTS
from bursar.simulate.scenario import Scenario
from bursar.simulate.simulation import Simulation
from tests.seeds import first_always
from tests.simulate.metrics.small_runs import measured, submitted
from tests.simulate.random_scenarios import random_scenario
from tests.support import fleet_of, job, pool

SEEDS = range(25)


def rates_of(state: FleetState) -> Counter[str]:
    """The rates between this step and the next, counted over the whole state."""
    rates: Counter[str] = Counter()
    for there in state.pools.values():
        spec = there.spec
        rates["capacity"] += MILLI * len(there.nodes) * spec.gpus_per_node
        rates[f"paid {spec.market}"] += len(there.nodes) * spec.node_micro_usd_per_hour
    for record in state.live():
        assert record.placement is not None
        spec = state.pools[record.placement.pool].spec
        rates[f"held {spec.market}"] += record.placement.micro_usd_per_hour
        for task in record.placement.tasks:
            rates[f"team {team_of(record.spec.queue)}"] += gpu_milli_held(task, spec.gpu_model)
    rates["held"] = sum(min(MILLI, milli) for milli in held_parts(state).values())
    rates["waiting"] = sum(record.state is JobState.QUEUED for record in state.jobs.values())
    free = [node for there in state.pools.values() for node in there.nodes if node.up]
    rates["free"] = sum(node.free_gpus for node in free)
    rates["scattered"] = sum(n.free_gpus for n in free if n.free_gpus < len(n.devices))
    rates["unallocated"] = rates["free"] if rates["waiting"] else 0
    return rates


def held_parts(state: FleetState) -> Counter[tuple[str, int]]:
    parts: Counter[tuple[str, int]] = Counter()
    for record in state.live():
        assert record.placement is not None
        model = state.pools[record.placement.pool].spec.gpu_model
        for task in record.placement.tasks:
            for gpu in task.gpus:
                parts[task.node, gpu] += MILLI
            for share in task.shares:
                parts[task.node, share.gpu] += share.percent * MILLI // 100
            for use in task.slices:
                assert model is not None and model.mig is not None
                parts[task.node, use.gpu] += slice_milli(model.mig, use.instance.profile)
    return parts


def team_of(queue: str) -> str:
    return {"vision": "research", "speech": "research", "serving": "product"}.get(queue, queue)


def recounted(scenario: Scenario) -> tuple[RunMetrics, Counter[str], int]:
    """The metrics, the recounted sums, and the time at which the last job ended.

    Time without jobs counts only if another job follows.
    """
    simulation = Simulation(scenario)
    measures = RunMetrics(simulation.state)
    sums: Counter[str] = Counter()
    later: Counter[str] = Counter()
    rates: Counter[str] = Counter()
    last_ms = ended_ms = 0
    for step in simulation.steps():
        if not (step.events or step.committed):
            measures.note(step)
            continue
        for name, rate in rates.items():
            later[name] += rate * (step.now_ms - last_ms)
        last_ms = step.now_ms
        if rates["jobs"] or any(isinstance(event, JobSubmitted) for event in step.events):
            sums.update(later)
            later.clear()
            ended_ms = step.now_ms
        measures.note(step)
        rates = rates_of(simulation.state)
        rates["jobs"] = len(simulation.state.jobs)
    return measures, sums, ended_ms


@pytest.mark.parametrize("seed", first_always(5, SEEDS))
def test_sums_equal_a_recount(seed: int) -> None:
    measures, slow, ended_ms = recounted(random_scenario(seed))
    summary = measures.summary()
    assert summary.ended_ms == ended_ms
    assert summary.gpu_time.capacity == slow["capacity"]
    assert summary.gpu_time.allocated == slow["held"]
    assert summary.gpu_time.allocated + summary.gpu_time.idle == slow["capacity"]
    for market in summary.cost.capacity:
        assert summary.cost.capacity[market] == slow[f"paid {market}"] // HOUR_MS
        assert summary.cost.allocated[market] == slow[f"held {market}"] // HOUR_MS
    together = sum(summary.cost.allocated.values()) + summary.cost.idle_micro_usd
    assert together == summary.cost.capacity_micro_usd
    for team in summary.teams:
        assert team.gpu_milli_ms == slow[f"team {team.team}"]
    span_ms = summary.makespan_ms
    assert summary.use.waiting_jobs == pytest.approx(slow["waiting"] / span_ms)
    assert summary.use.fragmentation == pytest.approx(slow["scattered"] / slow["free"])
    unallocated = summary.use.unallocated_gpus_while_waiting
    assert unallocated == pytest.approx(slow["unallocated"] / span_ms)


@pytest.mark.parametrize("seed", first_always(5, SEEDS))
def test_outcomes_match_the_state_and_parts_sum_to_the_total(seed: int) -> None:
    simulation = Simulation(random_scenario(seed))
    measures = RunMetrics(simulation.state)
    for step in simulation.steps():
        measures.note(step)
    summary, ends = measures.summary(), Counter(simulation.state.finished.values())
    outcomes = summary.outcomes
    assert outcomes.succeeded == ends[JobState.SUCCEEDED] == summary.times.jct_ms.count
    assert outcomes.failed == ends[JobState.FAILED]
    assert outcomes.cancelled == ends[JobState.CANCELLED]
    assert outcomes.unfinished == len(simulation.state.jobs)
    time = summary.gpu_time
    assert time.useful + time.lost + time.restart == time.allocated
    assert sum(times.jct_ms.count for times in summary.by_size.values()) == outcomes.succeeded
    assert sum(team.outcomes.submitted for team in summary.teams) == outcomes.submitted
    assert 0 <= summary.fairness.share_error_mean <= summary.fairness.share_error_max <= 1


def spans_of(series: Series) -> list[int]:
    """The length of each window; all are equal except the last."""
    edges = [n * series.width_ms for n in range(len(series))]
    edges.append(series.ended_ms - series.began_ms)
    return [b - a for a, b in pairwise(edges)]


@pytest.mark.parametrize("seed", first_always(3, SEEDS[:8]))
def test_curves_integrate_to_the_sums(seed: int) -> None:
    measures, slow, _ = recounted(random_scenario(seed))
    series = measures.series()
    spans = spans_of(series)
    assert len(series) <= MOST_POINTS
    held = sum(value * span for value, span in zip(series.gpus_held, spans, strict=True))
    assert held * MILLI == pytest.approx(slow["held"])
    waiting = sum(value * span for value, span in zip(series.waiting_jobs, spans, strict=True))
    assert waiting == pytest.approx(slow["waiting"])
    for shares in (series.shares, series.entitlements):
        for parts in zip(*shares.values(), strict=True):
            assert sum(parts) == pytest.approx(1.0) or sum(parts) == 0.0


def test_two_runs_of_one_scenario_have_equal_metrics() -> None:
    first, second = (recounted(random_scenario(3))[0] for _ in range(2))
    texts = []
    for measures in (first, second):
        summary = measures.summary().as_json()
        del summary["cycles"]
        texts.append(json.dumps([summary, asdict(measures.series())]))
    assert texts[0] == texts[1]


def test_a_long_run_has_a_bounded_number_of_points() -> None:
    jobs = [(n * 50 * HOUR_MS, job(f"job-{n}", 8, hours=1)) for n in range(200)]
    series = measured(submitted(*jobs)).series()
    assert MOST_POINTS // 2 <= len(series) <= MOST_POINTS
    held = sum(value * span for value, span in zip(series.gpus_held, spans_of(series), strict=True))
    assert held == pytest.approx(200 * 8 * HOUR_MS)


def test_of_a_large_fleet_only_some_nodes_are_drawn() -> None:
    fleet = fleet_of(pool("a100", nodes=150, usd_per_node_hour=8.0))
    jobs = [(0, job(f"job-{n:03}", 8, hours=1)) for n in range(150)]
    gantt = measured(submitted(*jobs), fleet=fleet).series().gantt
    assert (len(gantt.nodes), gantt.nodes_in_fleet) == (60, 150)
    assert len(gantt.bars) == 60 * 8
    assert {bar.columns for bar in gantt.bars} == {gantt.columns}

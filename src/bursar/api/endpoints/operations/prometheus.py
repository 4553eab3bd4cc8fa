"""The figures of the moment in the text form that Prometheus scrapes.

Only what is true now, and what this month has come to: counters of money would run backwards when work that
was counted as used turns out to be lost. Tenants are labels, so whoever asks gets the rows of those he sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)

from bursar.accounting.budgets.budget import BudgetStatus
from bursar.control.queries.health import Health
from bursar.control.queries.metric_values import MetricValues
from bursar.model.units import USD_MICRO

MEDIA_TYPE = CONTENT_TYPE_LATEST.partition(";")[0]
CONTENT_TYPE = CONTENT_TYPE_LATEST


def exposition(
    readings: MetricValues, health: Health, seen: frozenset[str], *, sees_fleet: bool
) -> bytes:
    """The whole page, for somebody who sees these tenants, or all."""

    def collect() -> Iterator[Metric]:
        yield from _of_tenants(readings, seen)
        yield from _of_budgets(readings, seen)
        if sees_fleet:
            yield from _of_pools(readings)
            yield from _of_the_server(health)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(collect))
    return generate_latest(registry)


class _Collector:
    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self.collect = collect

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: families are made when they are asked for."""
        return []


def _of_tenants(readings: MetricValues, seen: frozenset[str]) -> Iterator[Metric]:
    queues = sorted({*readings.waiting, *readings.running} & seen)
    yield _gauge(
        "bursar_jobs_waiting",
        "Jobs that wait, by queue.",
        ("queue",),
        _of(readings.waiting, queues),
    )
    yield _gauge(
        "bursar_jobs_live",
        "Jobs that hold room, by queue.",
        ("queue",),
        _of(readings.running, queues),
    )
    yield _gauge(
        "bursar_cost_month_dollars",
        "What a queue has come to in this calendar month (UTC): used, and wasted by lost work.",
        ("queue", "kind"),
        (
            (place, micro_usd / USD_MICRO)
            for place, micro_usd in sorted(readings.queue_month_micro_usd.items())
            if place[0] in seen
        ),
    )


def _of(counts: Mapping[str, int], names: Iterable[str]) -> Iterator[tuple[tuple[str, ...], float]]:
    return (((name,), counts.get(name, 0)) for name in names)


BUDGET_FIGURES: tuple[tuple[str, str, Callable[[BudgetStatus], int]], ...] = (
    ("amount", "What a tenant means to spend in each period.", lambda one: one.amount_micro_usd),
    ("spent", "What it has spent in this period.", lambda one: one.spent_micro_usd),
    (
        "held",
        "What is kept for its jobs beyond what they have cost.",
        lambda one: one.held_micro_usd,
    ),
    ("left", "What new jobs can still have.", lambda one: one.left_micro_usd),
)


def _of_budgets(readings: MetricValues, seen: frozenset[str]) -> Iterator[Metric]:
    shown = [one for one in readings.budgets if one.tenant in seen]
    for name, about, figure in BUDGET_FIGURES:
        yield _gauge(
            f"bursar_budget_{name}_dollars",
            about,
            ("tenant", "period", "enforcement"),
            (
                ((one.tenant, one.period.value, one.enforcement.value), figure(one) / USD_MICRO)
                for one in shown
            ),
        )
    yield _gauge(
        "bursar_budget_rate_dollars_per_hour",
        "What its live jobs cost an hour.",
        ("tenant",),
        (((one.tenant,), one.micro_usd_per_hour / USD_MICRO) for one in shown),
    )
    yield _gauge(
        "bursar_budget_level_percent",
        "The highest step of its budget that a tenant has passed; 0 is none.",
        ("tenant",),
        (((one.tenant,), one.level) for one in shown),
    )


def _of_pools(readings: MetricValues) -> Iterator[Metric]:
    yield _gauge(
        "bursar_pool_month_dollars",
        "What a pool has cost in this calendar month (UTC), kind capacity, and where that went: usage, "
        "waste, idle, reserved, foreign, adjustment.",
        ("pool", "kind"),
        (
            (place, micro_usd / USD_MICRO)
            for place, micro_usd in sorted(readings.pool_month_micro_usd.items())
        ),
    )
    yield _gauge(
        "bursar_pool_idle_dollars_per_hour",
        "What of a pool nobody uses costs an hour.",
        ("pool",),
        (
            ((pool,), micro_usd / USD_MICRO)
            for pool, micro_usd in sorted(readings.idle_micro_usd_per_hour.items())
        ),
    )
    there = sorted(readings.gpus.items())
    yield _gauge("bursar_pool_gpus", "GPUs of a pool.", ("pool",), (((p,), n[0]) for p, n in there))
    yield _gauge(
        "bursar_pool_gpus_held", "GPUs with a holder.", ("pool",), (((p,), n[1]) for p, n in there)
    )


def _of_the_server(health: Health) -> Iterator[Metric]:
    nothing: tuple[str, ...] = ()
    for name, about, value in (
        ("bursar_leader", "1 where this process leads.", float(health.is_leader)),
        ("bursar_log_sequence", "How far the log has come.", float(health.last_sequence)),
        (
            "bursar_last_cycle_seconds",
            "How long the last cycle took.",
            health.last_cycle_ms / 1_000,
        ),
        ("bursar_halted", "1 when no decisions are made any more.", float(bool(health.halted))),
    ):
        yield _gauge(name, about, nothing, ((nothing, value),))
    for name, about, count in (
        ("bursar_cycles", "Cycles since this process leads.", health.cycles),
        ("bursar_stale_reports", "Reports of attempts that were over.", health.stale_reports),
    ):
        family = CounterMetricFamily(name, about)
        family.add_metric((), count)
        yield family


def _gauge(
    name: str,
    about: str,
    labels: tuple[str, ...],
    rows: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for values, figure in rows:
        family.add_metric(values, figure)
    return family

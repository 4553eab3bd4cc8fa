"""Metrics in the Prometheus text format.

Amounts are gauges of the current month: counters would decrease when work that was counted as used is lost.
Tenants are labels, and a caller gets only the tenants that it may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from starlette.responses import Response

from bursar.api.http.errors import no_fleet
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Route
from bursar.control.queries.health import Health
from bursar.control.queries.metric_values import MetricValues, read_metric_values
from bursar.model.tenants.identity import MEMBER_OF_ALL, Permission
from bursar.model.units import USD_MICRO

MEDIA_TYPE = CONTENT_TYPE_LATEST.partition(";")[0]


@Route("GET", "/metrics", Permission.READ_TENANTS, "Prometheus text format.", media=(MEDIA_TYPE,))
async def scrape(request: RequestContext) -> Response:
    """Metrics for Prometheus: of the tenants that you may see, and of the fleet for admins of all."""
    context = request.context
    if context.plane.declaration() is None:
        raise no_fleet()
    visible = await request.visible_tenants()
    values = await context.wait(context.plane.query_live(read_metric_values))
    health = await context.run_blocking(context.plane.health)
    sees_fleet = request.caller.tenant == MEMBER_OF_ALL
    page = exposition(values, health, visible, sees_fleet=sees_fleet)
    return Response(page, media_type=CONTENT_TYPE_LATEST)


def exposition(
    values: MetricValues, health: Health, visible: frozenset[str], *, sees_fleet: bool
) -> bytes:
    """The text of all metrics, for a caller who may see these tenants."""

    def collect() -> Iterator[Metric]:
        yield from _tenant_metrics(values, visible)
        yield from _budget_metrics(values, visible)
        if sees_fleet:
            yield from _pool_metrics(values)
            yield from _server_metrics(health)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(collect))
    return generate_latest(registry)


class _Collector:
    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self.collect = collect

    def describe(self) -> list[Metric]:
        """Empty: metric families are made by each scrape."""
        return []


def _tenant_metrics(values: MetricValues, visible: frozenset[str]) -> Iterator[Metric]:
    queues = sorted({*values.waiting, *values.running} & visible)
    for name, about, counts in (
        ("bursar_jobs_waiting", "Waiting jobs, by queue.", values.waiting),
        ("bursar_jobs_live", "Jobs that hold capacity, by queue.", values.running),
    ):
        yield _gauge(name, about, ("queue",), (((one,), counts.get(one, 0)) for one in queues))
    yield _gauge(
        "bursar_cost_month_dollars",
        "Cost of a queue in this calendar month (UTC): usage, and waste by lost work.",
        ("queue", "kind"),
        (
            (labels, micro_usd / USD_MICRO)
            for labels, micro_usd in sorted(values.queue_month_micro_usd.items())
            if labels[0] in visible
        ),
    )


BUDGET_METRICS = {
    "amount": "Amount of a tenant's budget for each period.",
    "spent": "Amount spent in this period.",
    "held": "Amount reserved for live jobs beyond what they have cost.",
    "left": "Amount left for new jobs.",
}


def _budget_metrics(values: MetricValues, visible: frozenset[str]) -> Iterator[Metric]:
    shown = [one for one in values.budgets if one.tenant in visible]
    labels = [(one.tenant, one.period.value, one.enforcement.value) for one in shown]
    for name, about in BUDGET_METRICS.items():
        amounts = [getattr(one, f"{name}_micro_usd") / USD_MICRO for one in shown]
        yield _gauge(
            f"bursar_budget_{name}_dollars",
            about,
            ("tenant", "period", "enforcement"),
            zip(labels, amounts, strict=True),
        )
    yield _gauge(
        "bursar_budget_rate_dollars_per_hour",
        "Hourly cost of the live jobs.",
        ("tenant",),
        (((one.tenant,), one.micro_usd_per_hour / USD_MICRO) for one in shown),
    )
    yield _gauge(
        "bursar_budget_level_percent",
        "The highest threshold of its budget that a tenant has reached; 0 is none.",
        ("tenant",),
        (((one.tenant,), one.level) for one in shown),
    )


def _pool_metrics(values: MetricValues) -> Iterator[Metric]:
    yield _gauge(
        "bursar_pool_month_dollars",
        "Cost of a pool in this calendar month (UTC): in total (kind capacity), and by kind: usage, "
        "waste, idle, reserved, foreign, adjustment.",
        ("pool", "kind"),
        (
            (labels, micro_usd / USD_MICRO)
            for labels, micro_usd in sorted(values.pool_month_micro_usd.items())
        ),
    )
    yield _gauge(
        "bursar_pool_idle_dollars_per_hour",
        "Hourly cost of the idle capacity of a pool.",
        ("pool",),
        (
            ((pool,), micro_usd / USD_MICRO)
            for pool, micro_usd in sorted(values.idle_micro_usd_per_hour.items())
        ),
    )
    gpus = sorted(values.gpus.items())
    yield _gauge("bursar_pool_gpus", "GPUs of a pool.", ("pool",), (((p,), n[0]) for p, n in gpus))
    yield _gauge(
        "bursar_pool_gpus_held", "GPUs that are in use.", ("pool",), (((p,), n[1]) for p, n in gpus)
    )


def _server_metrics(health: Health) -> Iterator[Metric]:
    cycle_seconds, is_halted = health.last_cycle_ms / 1_000, bool(health.halted)
    for name, about, value in (
        ("leader", "1 if this process is the leader.", health.is_leader),
        ("log_sequence", "Sequence number of the last event in the log.", health.last_sequence),
        ("last_cycle_seconds", "Duration of the last scheduling cycle.", cycle_seconds),
        ("halted", "1 if scheduling has stopped after a broken invariant.", is_halted),
    ):
        yield _gauge(f"bursar_{name}", about, (), (((), float(value)),))
    for name, about, count in (
        ("bursar_cycles", "Scheduling cycles since this process became the leader.", health.cycles),
        (
            "bursar_stale_reports",
            "Reports about attempts that had already ended.",
            health.stale_reports,
        ),
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
    for label_values, value in rows:
        family.add_metric(label_values, value)
    return family

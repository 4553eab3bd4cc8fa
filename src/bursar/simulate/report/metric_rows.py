"""The rows of a comparison: what is measured, how it is written, and whether more or less is better.

The table of ``compare`` and the headline of the page are both made from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bursar.model.units import DAY_MS, HOUR_MS, MILLI, MINUTE_MS, SECOND_MS, USD_MICRO, write_usd
from bursar.simulate.metrics.summary import GPU_HOUR, Summary

LESS, NEITHER, MORE = -1, 0, 1


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One row. ``better`` is LESS, MORE or NEITHER.

    ``value`` returns None where a run has no such value.
    """

    group: str
    better: int
    label: str
    value: Callable[[Summary], float | None]
    write: Callable[[float], str]


# -- how numbers are written ---------------------------------------------------------------------


def write_time(duration_ms: float) -> str:
    """One unit with about three digits, so that columns are easy to compare."""
    for unit_ms, name in ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min")):
        if duration_ms >= 2 * unit_ms or (unit_ms < DAY_MS and duration_ms >= unit_ms):
            return f"{write_number(duration_ms / unit_ms)} {name}"
    return f"{write_number(duration_ms / SECOND_MS)} s" if duration_ms else "0 s"


def write_percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %"


def write_count(number: float) -> str:
    return f"{number:,.0f}"


def write_dollars(micro_usd: float) -> str:
    """Large amounts are written without cents."""
    if abs(micro_usd) >= 10_000 * USD_MICRO:
        return f"{'-' if micro_usd < 0 else ''}${abs(micro_usd) / USD_MICRO:,.0f}"
    return write_usd(round(micro_usd))


def write_gpu_hours(gpu_milli_ms: float) -> str:
    return f"{write_number(gpu_milli_ms / GPU_HOUR)} GPU-h"


def write_real_time(nanoseconds: float) -> str:
    if nanoseconds >= 1e6:
        return f"{write_number(nanoseconds / 1e6)} ms"
    return f"{write_number(nanoseconds / 1e3)} µs"


def write_number(number: float) -> str:
    """About three digits, and no decimals from a thousand on."""
    size = abs(number)
    return f"{number:,.0f}" if size >= 1000 else f"{number:.1f}" if size >= 10 else f"{number:.2f}"


def _slowdown(milli: float) -> str:
    return f"{write_number(milli / MILLI)} x"


# -- metrics -------------------------------------------------------------------------------------


def _of_jobs(value: Callable[[Summary], float]) -> Callable[[Summary], float | None]:
    """None for a run without succeeded jobs, instead of zero."""
    return lambda summary: value(summary) if summary.times.jct_ms.count else None


def _unallocated_while_waiting(summary: Summary) -> float:
    return summary.use.unallocated_gpus_while_waiting


def _worst_team(summary: Summary) -> float | None:
    return summary.fairness.worst_of_entitlement


def _lost_or_failed(summary: Summary) -> int:
    return summary.losses.attempts_lost_with_node + summary.losses.attempts_failed


def _deadlines_kept(summary: Summary) -> float | None:
    return _fraction(summary.promises.deadlines_kept, summary.promises.deadlines_missed)


def _slos_kept(summary: Summary) -> float | None:
    return _fraction(summary.promises.slos_kept, summary.promises.slos_missed)


def _fraction(met: int, missed: int) -> float | None:
    """The fraction of promises that were met; None without promises."""
    return met / (met + missed) if met + missed else None


JCT = "Job completion"
WAIT = "Time in queue"
USE = "GPUs"
FAIR = "Fairness"
LOST = "Interruptions"
MONEY = "Money"
RUN = "The run"

METRICS: tuple[MetricRow, ...] = (
    MetricRow(JCT, LESS, "JCT mean", _of_jobs(lambda s: s.times.jct_ms.mean), write_time),
    MetricRow(JCT, LESS, "JCT p50", _of_jobs(lambda s: s.times.jct_ms.p50), write_time),
    MetricRow(JCT, LESS, "JCT p90", _of_jobs(lambda s: s.times.jct_ms.p90), write_time),
    MetricRow(JCT, LESS, "JCT p99", _of_jobs(lambda s: s.times.jct_ms.p99), write_time),
    MetricRow(WAIT, LESS, "wait mean", _of_jobs(lambda s: s.times.wait_ms.mean), write_time),
    MetricRow(WAIT, LESS, "wait p50", _of_jobs(lambda s: s.times.wait_ms.p50), write_time),
    MetricRow(WAIT, LESS, "wait p90", _of_jobs(lambda s: s.times.wait_ms.p90), write_time),
    MetricRow(WAIT, LESS, "wait p99", _of_jobs(lambda s: s.times.wait_ms.p99), write_time),
    MetricRow(
        WAIT, LESS, "slowdown mean", _of_jobs(lambda s: s.times.slowdown_milli.mean), _slowdown
    ),
    MetricRow(
        WAIT, LESS, "slowdown p99", _of_jobs(lambda s: s.times.slowdown_milli.p99), _slowdown
    ),
    MetricRow(USE, MORE, "GPUs allocated", lambda s: s.use.allocated, write_percent),
    MetricRow(USE, MORE, "GPUs useful", lambda s: s.use.useful, write_percent),
    MetricRow(USE, LESS, "fragmentation", lambda s: s.use.fragmentation, write_percent),
    MetricRow(USE, LESS, "free GPUs while jobs wait", _unallocated_while_waiting, write_number),
    MetricRow(FAIR, LESS, "share error mean", lambda s: s.fairness.share_error_mean, write_percent),
    MetricRow(FAIR, LESS, "share error max", lambda s: s.fairness.share_error_max, write_percent),
    MetricRow(FAIR, MORE, "Jain index", lambda s: s.fairness.jain, "{:.3f}".format),
    MetricRow(FAIR, MORE, "worst team, of entitlement", _worst_team, write_percent),
    MetricRow(LOST, LESS, "preemptions", lambda s: s.losses.preemptions, write_count),
    MetricRow(LOST, LESS, "lost with nodes or failed", _lost_or_failed, write_count),
    MetricRow(LOST, LESS, "work lost", lambda s: s.losses.lost_gpu_milli_ms, write_gpu_hours),
    MetricRow(LOST, LESS, "work lost, dollars", lambda s: s.losses.lost_micro_usd, write_dollars),
    MetricRow(LOST, MORE, "deadlines kept", _deadlines_kept, write_percent),
    MetricRow(LOST, MORE, "SLOs kept", _slos_kept, write_percent),
    MetricRow(MONEY, LESS, "cost of the fleet", lambda s: s.cost.capacity_micro_usd, write_dollars),
    MetricRow(MONEY, LESS, "idle dollars", lambda s: s.cost.idle_micro_usd, write_dollars),
    MetricRow(RUN, LESS, "makespan", lambda s: s.makespan_ms, write_time),
    MetricRow(RUN, LESS, "unfinished jobs", lambda s: s.outcomes.unfinished, write_count),
    MetricRow(RUN, MORE, "jobs succeeded", lambda s: s.outcomes.succeeded, write_count),
    MetricRow(RUN, NEITHER, "cycles", lambda s: s.cycles.count, write_count),
    MetricRow(RUN, NEITHER, "cycle time p50", lambda s: s.cycles.p50_ns, write_real_time),
    MetricRow(RUN, NEITHER, "cycle time p99", lambda s: s.cycles.p99_ns, write_real_time),
)


def metric_rows(summaries: Sequence[Summary]) -> tuple[MetricRow, ...]:
    """The rows for these runs: all metrics, and the cost of each purchase option."""
    markets = sorted({market for summary in summaries for market in summary.cost.allocated})
    paid = [
        MetricRow(MONEY, NEITHER, f"paid for {market}", _paid(market), write_dollars)
        for market in markets
    ]
    first = next(number for number, one in enumerate(METRICS) if one.label == "idle dollars")
    return (*METRICS[:first], *paid, *METRICS[first:])


def _paid(market: str) -> Callable[[Summary], float | None]:
    return lambda summary: summary.cost.allocated.get(market)

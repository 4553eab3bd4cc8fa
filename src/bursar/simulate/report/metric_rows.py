"""The rows of a comparison: what is measured, how it is written, and whether more or less is better.

The table of ``compare`` and the headline of the page are both made from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bursar.model.units import DAY_MS, HOUR_MS, MILLI, MINUTE_MS, SECOND_MS, USD_MICRO, write_usd
from bursar.simulate.metrics.summary import GPU_HOUR, Summary

Writer = Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One row. ``better`` is -1 when less is better, 1 when more is, 0 when neither is.

    ``value`` returns None where a run has no such value.
    """

    group: str
    label: str
    value: Callable[[Summary], float | None]
    write: Callable[[float], str]
    better: int = 0


# -- how numbers are written ---------------------------------------------------------------------


def write_time(duration_ms: float) -> str:
    """One unit with about three digits, so that columns are easy to compare."""
    for unit_ms, name in ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min")):
        if duration_ms >= 2 * unit_ms or (unit_ms < DAY_MS and duration_ms >= unit_ms):
            return f"{_digits(duration_ms / unit_ms)} {name}"
    return f"{_digits(duration_ms / SECOND_MS)} s" if duration_ms else "0 s"


def write_percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %"


def write_count(number: float) -> str:
    return f"{number:,.0f}"


def write_number(number: float) -> str:
    return _digits(number)


def write_dollars(micro_usd: float) -> str:
    """Large amounts are written without cents."""
    if abs(micro_usd) >= 10_000 * USD_MICRO:
        return f"{'-' if micro_usd < 0 else ''}${abs(micro_usd) / USD_MICRO:,.0f}"
    return write_usd(round(micro_usd))


def write_gpu_hours(gpu_milli_ms: float) -> str:
    return f"{_digits(gpu_milli_ms / GPU_HOUR)} GPU-h"


def write_real_time(nanoseconds: float) -> str:
    if nanoseconds >= 1e6:
        return f"{_digits(nanoseconds / 1e6)} ms"
    return f"{_digits(nanoseconds / 1e3)} µs"


def _digits(number: float) -> str:
    size = abs(number)
    return f"{number:,.0f}" if size >= 1000 else f"{number:.1f}" if size >= 10 else f"{number:.2f}"


def _slowdown(milli: float) -> str:
    return f"{_digits(milli / MILLI)} x"


# -- metrics -------------------------------------------------------------------------------------


def _of_jobs(value: Callable[[Summary], float]) -> Callable[[Summary], float | None]:
    """None for a run without succeeded jobs, instead of zero."""
    return lambda summary: value(summary) if summary.times.jct_ms.count else None


def _met(
    met: Callable[[Summary], int], missed: Callable[[Summary], int]
) -> Callable[[Summary], float | None]:
    """The fraction of promises that were met, None without promises."""

    def fraction(summary: Summary) -> float | None:
        total = met(summary) + missed(summary)
        return met(summary) / total if total else None

    return fraction


def _lost_or_failed(summary: Summary) -> int:
    return summary.losses.attempts_lost_with_node + summary.losses.attempts_failed


def _rows(
    group: str, better: int, *lines: tuple[str, Callable[[Summary], float | None], Writer]
) -> Iterator[MetricRow]:
    for label, value, write in lines:
        yield MetricRow(group=group, label=label, value=value, write=write, better=better)


JCT = "Job completion"
WAIT = "Time in queue"
USE = "GPUs"
FAIR = "Fairness"
LOST = "Interruptions"
MONEY = "Money"
RUN = "The run"

METRICS: tuple[MetricRow, ...] = (
    *_rows(
        JCT,
        -1,
        ("JCT mean", _of_jobs(lambda s: s.times.jct_ms.mean), write_time),
        ("JCT p50", _of_jobs(lambda s: s.times.jct_ms.p50), write_time),
        ("JCT p90", _of_jobs(lambda s: s.times.jct_ms.p90), write_time),
        ("JCT p99", _of_jobs(lambda s: s.times.jct_ms.p99), write_time),
    ),
    *_rows(
        WAIT,
        -1,
        ("wait mean", _of_jobs(lambda s: s.times.wait_ms.mean), write_time),
        ("wait p50", _of_jobs(lambda s: s.times.wait_ms.p50), write_time),
        ("wait p90", _of_jobs(lambda s: s.times.wait_ms.p90), write_time),
        ("wait p99", _of_jobs(lambda s: s.times.wait_ms.p99), write_time),
        ("slowdown mean", _of_jobs(lambda s: s.times.slowdown_milli.mean), _slowdown),
        ("slowdown p99", _of_jobs(lambda s: s.times.slowdown_milli.p99), _slowdown),
    ),
    *_rows(
        USE,
        1,
        ("GPUs allocated", lambda s: s.use.allocated, write_percent),
        ("GPUs useful", lambda s: s.use.useful, write_percent),
    ),
    *_rows(
        USE,
        -1,
        ("fragmentation", lambda s: s.use.fragmentation, write_percent),
        ("free GPUs while jobs wait", lambda s: s.use.unallocated_gpus_while_waiting, write_number),
    ),
    *_rows(
        FAIR,
        -1,
        ("share error mean", lambda s: s.fairness.share_error_mean, write_percent),
        ("share error max", lambda s: s.fairness.share_error_max, write_percent),
    ),
    *_rows(
        FAIR,
        1,
        ("Jain index", lambda s: s.fairness.jain, lambda number: f"{number:.3f}"),
        ("worst team, of entitlement", lambda s: s.fairness.worst_of_entitlement, write_percent),
    ),
    *_rows(
        LOST,
        -1,
        ("preemptions", lambda s: s.losses.preemptions, write_count),
        ("lost with nodes or failed", _lost_or_failed, write_count),
        ("work lost", lambda s: s.losses.lost_gpu_milli_ms, write_gpu_hours),
        ("work lost, dollars", lambda s: s.losses.lost_micro_usd, write_dollars),
    ),
    *_rows(
        LOST,
        1,
        (
            "deadlines kept",
            _met(lambda s: s.promises.deadlines_kept, lambda s: s.promises.deadlines_missed),
            write_percent,
        ),
        (
            "SLOs kept",
            _met(lambda s: s.promises.slos_kept, lambda s: s.promises.slos_missed),
            write_percent,
        ),
    ),
    *_rows(
        MONEY,
        -1,
        ("cost of the fleet", lambda s: s.cost.capacity_micro_usd, write_dollars),
        ("idle dollars", lambda s: s.cost.idle_micro_usd, write_dollars),
    ),
    *_rows(
        RUN,
        -1,
        ("makespan", lambda s: s.makespan_ms, write_time),
        ("unfinished jobs", lambda s: s.outcomes.unfinished, write_count),
    ),
    *_rows(RUN, 1, ("jobs succeeded", lambda s: s.outcomes.succeeded, write_count)),
    *_rows(
        RUN,
        0,
        ("cycles", lambda s: s.cycles.count, write_count),
        ("cycle time p50", lambda s: s.cycles.p50_ns, write_real_time),
        ("cycle time p99", lambda s: s.cycles.p99_ns, write_real_time),
    ),
)


def metric_rows(summaries: Sequence[Summary]) -> tuple[MetricRow, ...]:
    """The rows for these runs: all metrics, and the cost of each purchase option."""
    markets = sorted({market for summary in summaries for market in summary.cost.allocated})
    paid = [
        MetricRow(group=MONEY, label=f"paid for {market}", value=_paid(market), write=write_dollars)
        for market in markets
    ]
    first = next(number for number, one in enumerate(METRICS) if one.label == "idle dollars")
    return (*METRICS[:first], *paid, *METRICS[first:])


def _paid(market: str) -> Callable[[Summary], float | None]:
    return lambda summary: summary.cost.allocated.get(market)

"""The demonstration as plain text: a timeline, tables, and why jobs waited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import Hold
from bursar.model.tenants.tenant import GPU, Quota
from bursar.model.units import HOUR_MS, counted, write_duration, write_gpus, write_usd
from bursar.simulate.demo.timeline import Timeline
from bursar.simulate.demo.timeline_entry import (
    Importance,
    TimelineEntry,
    time_of_day,
    write_reasons,
    write_size,
)
from bursar.simulate.metrics import RunMetrics, Series, Summary
from bursar.simulate.report.aligned import aligned
from bursar.simulate.report.text import team_table
from bursar.simulate.simulation import Simulation

WIDTH = 116
MAX_TIMELINE_LINES = 58
MAX_JOBS_EXPLAINED = 5
INTERVAL_MS = 2 * HOUR_MS
HEADING = "heading"
PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLine:
    """A line and its tone: a heading, plain, or the verb of its entry. A terminal may colour it."""

    text: str
    tone: str = PLAIN


def heading(text: str) -> Iterator[TextLine]:
    """A heading after an empty line."""
    yield TextLine(text="")
    yield TextLine(text=text, tone=HEADING)


def table(rows: Sequence[Sequence[str]]) -> Iterator[TextLine]:
    """Aligned columns, indented below a heading."""
    yield from (TextLine(text=f"  {line}") for line in aligned(rows))


# -- the timeline --------------------------------------------------------------------------------


def timeline(entries: Sequence[TimelineEntry], *, max_lines: int | None) -> Iterator[TextLine]:
    """Entries in order; with a limit, the most important that fit, and how many were omitted."""
    width = max((len(entry.subject) for entry in entries), default=0)
    written = [list(_write(entry, width)) for entry in entries]
    chosen: Sequence[int] = range(len(entries))
    if max_lines is not None:
        chosen = _most_important(entries, [len(lines) for lines in written], max_lines)
    for index in chosen:
        yield from written[index]
    if len(chosen) < len(entries):
        omitted = len(entries) - len(chosen)
        yield TextLine(text=f"  ({omitted} minor entries omitted; --verbose shows all)")


def _most_important(
    entries: Sequence[TimelineEntry], sizes: Sequence[int], max_lines: int
) -> Sequence[int]:
    remaining_lines = max_lines
    chosen = []
    by_importance = sorted(range(len(entries)), key=lambda n: (entries[n].importance, n))
    for index in by_importance:
        if entries[index].importance < Importance.LOW and sizes[index] <= remaining_lines:
            remaining_lines -= sizes[index]
            chosen.append(index)
    return sorted(chosen)


def _write(entry: TimelineEntry, width: int) -> Iterator[TextLine]:
    start = f"  {time_of_day(entry.at_ms):<5}  {entry.verb:<9}  {entry.subject:<{width}}  "
    for sentence in entry.sentences:
        for text in wrap(sentence, WIDTH - len(start), break_on_hyphens=False):
            yield TextLine(text=start + text, tone=entry.verb)
            start = " " * len(start)


# -- tables --------------------------------------------------------------------------------------


def team_rows(summary: Summary) -> Iterator[TextLine]:
    """The teams, as ``bursar simulate`` prints them, and the outcomes of all jobs."""
    yield from heading("By team")
    yield from (TextLine(text=f"  {line}") for line in team_table(summary.teams))
    jobs, losses = summary.outcomes, summary.losses
    cost = write_usd(sum(team.cost_micro_usd for team in summary.teams))
    yield TextLine(
        text=f"  {jobs.succeeded} of {counted(jobs.submitted, 'job')} succeeded, "
        f"{jobs.failed + jobs.cancelled} stopped; all cost {cost}, "
        f"of which {write_usd(losses.lost_micro_usd)} was lost work"
    )


def utilisation_rows(summary: Summary, series: Series) -> Iterator[TextLine]:
    """GPUs held over time, in percent of all GPUs."""
    held: dict[int, float] = {}
    total: dict[int, float] = {}
    for number, (used, gpus) in enumerate(zip(series.gpus_held, series.gpus, strict=True)):
        begin_ms = series.began_ms + number * series.width_ms
        span_ms = min(series.width_ms, series.ended_ms - begin_ms)
        interval = begin_ms // INTERVAL_MS
        held[interval] = held.get(interval, 0.0) + used * span_ms
        total[interval] = total.get(interval, 0.0) + gpus * span_ms
    yield from heading(f"GPUs in use ({100 * summary.use.allocated:.0f} % of all on average)")
    titles = ["from", *(time_of_day(interval * INTERVAL_MS) for interval in held)]
    percents = [str(int(100 * held[one] / total[one])) if total[one] else "0" for one in held]
    yield from table([titles, ["%", *percents]])


# -- why -----------------------------------------------------------------------------------------


def why(history: Timeline, *, max_jobs: int | None) -> Iterator[TextLine]:
    """The reasons, in numbers, at the step with the most types of reasons."""
    if not history.busiest:
        return
    now_ms = history.busiest_ms
    waiting = sum(hold.waiting for hold in history.busiest)
    jobs = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
    yield from heading(f"Why jobs wait: {time_of_day(now_ms)}, {jobs}")
    for hold in _most_varied(list(history.busiest), max_jobs):
        spec, submitted_ms = history.busiest[hold]
        more = f", and {hold.waiting - 1} more of its kind" if hold.waiting > 1 else ""
        waited = write_duration(now_ms - submitted_ms)
        size = write_size(spec)
        yield TextLine(text=f"  {hold.head}{more}: {size} for {spec.queue}, submitted {waited} ago")
        for reason in write_reasons(hold):
            for number, text in enumerate(wrap(reason, WIDTH - 8, break_on_hyphens=False)):
                yield TextLine(text=f"    {'  ' if number else '- '}{text}")


def _most_varied(holds: Sequence[Hold], limit: int | None) -> Sequence[Hold]:
    """Holds up to a limit, with as many types of reasons as possible."""
    if limit is None:
        return holds
    seen: set[tuple[str, ...]] = set()
    new: list[Hold] = []
    repeated: list[Hold] = []
    for hold in holds:
        types = tuple(type(reason).__name__ for reason in hold.reasons)
        (repeated if types in seen else new).append(hold)
        seen.add(types)
    return [*new, *repeated][:limit]


# -- the whole text ------------------------------------------------------------------------------


def demo_text(simulation: Simulation, *, verbose: bool) -> Iterator[TextLine]:
    """Runs a simulation to its end and describes it."""
    metrics, history = RunMetrics(simulation.state), Timeline(simulation.state)
    introduction = list(_introduction(simulation.state))
    for step in simulation.steps():
        metrics.note(step)
        history.note(step)
    yield from introduction
    yield from heading("What happened")
    yield from timeline(history.entries, max_lines=None if verbose else MAX_TIMELINE_LINES)
    summary = metrics.summary()
    yield from team_rows(summary)
    yield from utilisation_rows(summary, metrics.series())
    yield from why(history, max_jobs=None if verbose else MAX_JOBS_EXPLAINED)
    unfinished = sorted(simulation.state.jobs)
    if unfinished:
        yield from heading(f"Never finished: {', '.join(unfinished)}")


def _introduction(state: FleetState) -> Iterator[TextLine]:
    yield TextLine(text="The fleet and its queues", tone=HEADING)
    for name, pool in sorted(state.pools.items()):
        spec = pool.spec
        model = spec.gpu_model.name if spec.gpu_model else "no GPU"
        each = write_usd(spec.node_micro_usd_per_hour // max(1, spec.gpus_per_node))
        size = f"{counted(len(pool.nodes), 'node')} x {spec.gpus_per_node} {model}"
        yield TextLine(text=f"  pool {name}: {size}, {spec.market}, {each} a GPU-hour")
    for name, tenant in sorted(state.tenants.items()):
        if not tenant.is_queue:
            continue
        owned = [
            f"{write_gpus(quota.nominal)} of {flavor}{_borrows(quota)}"
            for (flavor, resource), quota in sorted(tenant.quotas.items())
            if resource == GPU and quota.nominal
        ]
        yield TextLine(text=f"  queue {name}: {'; '.join(owned) or 'no quota of its own'}")


def _borrows(quota: Quota) -> str:
    if quota.borrowing_limit is None:
        return ", borrows idle quota"
    return f", borrows up to {write_gpus(quota.borrowing_limit)}"

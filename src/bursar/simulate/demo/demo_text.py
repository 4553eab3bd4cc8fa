"""A run as plain text: a timeline, tables with aligned columns, and why some jobs waited."""

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
    TimelineEntry,
    Weight,
    time_of_day,
    write_reasons,
    write_size,
)
from bursar.simulate.metrics import RunMetrics, Series, Summary
from bursar.simulate.metrics.summary import GPU_HOUR, OutcomeSummary, TeamSummary, Times
from bursar.simulate.report.aligned import aligned
from bursar.simulate.simulation import Simulation, Step

WIDTH = 116
MOST_TIMELINE_LINES = 58
MOST_JOBS_EXPLAINED = 5
STRETCH_MS = 2 * HOUR_MS
HEADING = "heading"
PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLine:
    """A line and its tone: a heading, plain, or the verb of its moment. A terminal may colour it."""

    text: str
    tone: str = PLAIN


def heading(text: str) -> Iterator[TextLine]:
    """A title with an empty line above it."""
    yield TextLine(text="")
    yield TextLine(text=text, tone=HEADING)


def table(rows: Sequence[Sequence[str]]) -> Iterator[TextLine]:
    """Aligned columns, indented like everything under a heading."""
    yield from (TextLine(text=f"  {line}") for line in aligned(rows))


# -- the timeline --------------------------------------------------------------------------------


def timeline(moments: Sequence[TimelineEntry], *, most_lines: int | None) -> Iterator[TextLine]:
    """Moments in order. With a limit, the weightiest that fit in it, and how many were left out."""
    width = max((len(moment.subject) for moment in moments), default=0)
    written = [list(_write(moment, width)) for moment in moments]
    chosen: Sequence[int] = range(len(moments))
    if most_lines is not None:
        chosen = _weightiest(moments, [len(lines) for lines in written], most_lines)
    for index in chosen:
        yield from written[index]
    if len(chosen) < len(moments):
        left_out = len(moments) - len(chosen)
        yield TextLine(
            text=f"  ({left_out} quieter moments are left out; --verbose tells them all)"
        )


def _weightiest(moments: Sequence[TimelineEntry], sizes: Sequence[int], most: int) -> Sequence[int]:
    room = most
    chosen = []
    by_weight = sorted(range(len(moments)), key=lambda index: (moments[index].weight, index))
    for index in by_weight:
        if moments[index].weight < Weight.DETAIL and sizes[index] <= room:
            room -= sizes[index]
            chosen.append(index)
    return sorted(chosen)


def _write(moment: TimelineEntry, width: int) -> Iterator[TextLine]:
    start = f"  {time_of_day(moment.at_ms):<5}  {moment.verb:<9}  {moment.subject:<{width}}  "
    for sentence in moment.sentences:
        for part in wrap(sentence, WIDTH - len(start), break_on_hyphens=False):
            yield TextLine(text=start + part, tone=moment.verb)
            start = " " * len(start)


# -- numbers -------------------------------------------------------------------------------------


def team_table(summary: Summary) -> Iterator[TextLine]:
    """One row for each team, and one for all."""
    yield from heading("By team")
    titles = ["team", "jobs", "ended well", "stopped", "wait p50", "wait p90"]
    rows = [[*titles, "GPU-hours", "cost", "preempted", "work lost"]]
    rows += [_team_row(team) for team in sorted(summary.teams, key=lambda one: one.team)]
    yield from table([*rows, _row_of_all(summary)])


def _team_row(team: TeamSummary) -> list[str]:
    return [
        team.team,
        *_job_cells(team.outcomes, team.times),
        f"{team.gpu_milli_ms / GPU_HOUR:.1f}",
        write_usd(team.cost_micro_usd),
        str(team.preemptions),
        write_usd(team.lost_micro_usd),
    ]


def _row_of_all(summary: Summary) -> list[str]:
    return [
        "together",
        *_job_cells(summary.outcomes, summary.times),
        f"{summary.gpu_time.allocated / GPU_HOUR:.1f}",
        write_usd(sum(team.cost_micro_usd for team in summary.teams)),
        str(summary.losses.preemptions),
        write_usd(summary.losses.lost_micro_usd),
    ]


def _job_cells(outcomes: OutcomeSummary, times: Times) -> list[str]:
    stopped = outcomes.failed + outcomes.cancelled
    counts = (outcomes.submitted, outcomes.succeeded, stopped)
    waits = (times.wait_ms.p50, times.wait_ms.p90)
    return [*map(str, counts), *(write_duration(round(wait_ms)) for wait_ms in waits)]


def utilisation_rows(summary: Summary, series: Series) -> Iterator[TextLine]:
    """GPUs held, in percent of all, over time."""
    held: dict[int, float] = {}
    there: dict[int, float] = {}
    for number, (used, gpus) in enumerate(zip(series.gpus_held, series.gpus, strict=True)):
        begin_ms = series.began_ms + number * series.width_ms
        span_ms = min(series.width_ms, series.ended_ms - begin_ms)
        stretch = begin_ms // STRETCH_MS
        held[stretch] = held.get(stretch, 0.0) + used * span_ms
        there[stretch] = there.get(stretch, 0.0) + gpus * span_ms
    yield from heading(f"GPUs in use ({100 * summary.use.allocated:.0f} % of all on average)")
    titles = ["from", *(time_of_day(stretch * STRETCH_MS) for stretch in held)]
    percents = [str(int(100 * held[one] / there[one])) if there[one] else "0" for one in held]
    yield from table([titles, ["%", *percents]])


# -- why -----------------------------------------------------------------------------------------


def why(story: Timeline, *, most_jobs: int | None) -> Iterator[TextLine]:
    """Every reason, in numbers, at the moment at which jobs waited for the most different ones."""
    step = story.crowded
    if step is None:
        return
    holds = [decision for decision in step.decisions if isinstance(decision, Hold)]
    waiting = sum(hold.waiting for hold in holds)
    jobs = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
    yield from heading(f"Why they wait: {time_of_day(step.now_ms)}, {jobs}")
    for hold in _most_different(holds, most_jobs):
        yield from _explain(story, step, hold)


def _most_different(holds: Sequence[Hold], most: int | None) -> Sequence[Hold]:
    """A few holds that show as many types of reason as possible."""
    if most is None:
        return holds
    seen: set[tuple[str, ...]] = set()
    new: list[Hold] = []
    again: list[Hold] = []
    for hold in holds:
        types = tuple(type(reason).__name__ for reason in hold.reasons)
        (again if types in seen else new).append(hold)
        seen.add(types)
    return [*new, *again][:most]


def _explain(story: Timeline, step: Step, hold: Hold) -> Iterator[TextLine]:
    spec = story.spec(hold.head)
    alike = f", and {hold.waiting - 1} alike" if hold.waiting > 1 else ""
    waited = write_duration(step.now_ms - story.since(hold.head))
    size = write_size(spec)
    yield TextLine(text=f"  {hold.head}{alike}: {size} for {spec.queue}, submitted {waited} ago")
    for reason in write_reasons(hold):
        for number, part in enumerate(wrap(reason, WIDTH - 8, break_on_hyphens=False)):
            yield TextLine(text=f"    {'  ' if number else '- '}{part}")


# -- all together --------------------------------------------------------------------------------


def tell(simulation: Simulation, *, verbose: bool) -> Iterator[TextLine]:
    """Run a simulation to its end and tell it: the fleet, what happened, the numbers, and why."""
    metrics, story = RunMetrics(simulation.state), Timeline(simulation.state)
    introduction = list(_introduce(simulation.state))
    for step in simulation.steps():
        metrics.note(step)
        story.note(step)
    yield from introduction
    yield from heading("What happened")
    yield from timeline(story.moments, most_lines=None if verbose else MOST_TIMELINE_LINES)
    summary = metrics.summary()
    yield from team_table(summary)
    yield from utilisation_rows(summary, metrics.series())
    yield from why(story, most_jobs=None if verbose else MOST_JOBS_EXPLAINED)
    unfinished = sorted(simulation.state.jobs)
    if unfinished:
        yield from heading(f"Never finished: {', '.join(unfinished)}")


def _introduce(state: FleetState) -> Iterator[TextLine]:
    yield TextLine(text="The fleet and who shares it", tone=HEADING)
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
        return ", borrows what is idle"
    return f", borrows up to {write_gpus(quota.borrowing_limit)}"

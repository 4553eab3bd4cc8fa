"""A run as plain text: a timeline, tables with aligned columns, and why some jobs waited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from bursar.core.state import FleetState
from bursar.model.decision import Hold
from bursar.model.tenant import GPU, Quota
from bursar.model.units import HOUR_MS, counted, write_duration, write_gpus, write_usd
from bursar.simulate.loop import Simulation, Step
from bursar.simulate.moments import Moment, Weight, time_of_day, write_reasons, write_size
from bursar.simulate.report import Report, TeamReport
from bursar.simulate.story import Story

WIDTH = 116
MOST_TIMELINE_LINES = 58
MOST_JOBS_EXPLAINED = 5
STRETCH_MS = 2 * HOUR_MS
HEADING = "heading"
PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line and its tone: a heading, plain, or the verb of its moment. A terminal may colour it."""

    text: str
    tone: str = PLAIN


def heading(text: str) -> Iterator[Line]:
    """A title with an empty line above it."""
    yield Line(text="")
    yield Line(text=text, tone=HEADING)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they must be: the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  " + "  ".join([first, *rest]).rstrip())
    return lines


# -- the timeline --------------------------------------------------------------------------------


def timeline(moments: Sequence[Moment], *, most_lines: int | None) -> Iterator[Line]:
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
        yield Line(text=f"  ({left_out} quieter moments are left out; --verbose tells them all)")


def _weightiest(moments: Sequence[Moment], sizes: Sequence[int], most: int) -> Sequence[int]:
    room = most
    chosen = []
    by_weight = sorted(range(len(moments)), key=lambda index: (moments[index].weight, index))
    for index in by_weight:
        if moments[index].weight < Weight.DETAIL and sizes[index] <= room:
            room -= sizes[index]
            chosen.append(index)
    return sorted(chosen)


def _write(moment: Moment, width: int) -> Iterator[Line]:
    start = f"  {time_of_day(moment.at_ms):<5}  {moment.verb:<9}  {moment.subject:<{width}}  "
    for sentence in moment.sentences:
        for part in wrap(sentence, WIDTH - len(start), break_on_hyphens=False):
            yield Line(text=start + part, tone=moment.verb)
            start = " " * len(start)


# -- numbers -------------------------------------------------------------------------------------


def team_table(report: Report) -> Iterator[Line]:
    """One row for each team, and one for all."""
    yield from heading("By team")
    titles = ["team", "jobs", "ended well", "stopped", "wait p50", "wait p90"]
    rows = [[*titles, "GPU-hours", "cost", "preempted", "work lost"]]
    teams = report.teams()
    rows += [_team_row(team) for team in (*teams, _together(teams))]
    yield from (Line(text=text) for text in table(rows))


def _team_row(team: TeamReport) -> list[str]:
    return [
        team.team,
        str(team.jobs),
        str(team.succeeded),
        str(team.stopped),
        write_duration(team.wait_ms(50)),
        write_duration(team.wait_ms(90)),
        f"{team.gpu_hours:.1f}",
        write_usd(team.cost_micro_usd),
        str(team.preempted),
        write_usd(team.lost_micro_usd),
    ]


def _together(teams: Iterable[TeamReport]) -> TeamReport:
    total = TeamReport(team="together")
    for team in teams:
        total.jobs += team.jobs
        total.succeeded += team.succeeded
        total.stopped += team.stopped
        total.waits_ms += team.waits_ms
        total.gpu_milli_ms += team.gpu_milli_ms
        total.cost_micro_usd += team.cost_micro_usd
        total.preempted += team.preempted
        total.lost_micro_usd += team.lost_micro_usd
    return total


def utilisation_rows(report: Report) -> Iterator[Line]:
    """GPUs held, in percent of all, over time."""
    rows = report.utilisation()
    yield from heading(f"GPUs in use ({report.mean_utilisation_percent:.0f} % of all on average)")
    titles = ["from", *(time_of_day(at_ms) for at_ms, _ in rows)]
    yield from (
        Line(text=t) for t in table([titles, ["%", *(str(percent) for _, percent in rows)]])
    )


# -- why -----------------------------------------------------------------------------------------


def why(story: Story, *, most_jobs: int | None) -> Iterator[Line]:
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


def _explain(story: Story, step: Step, hold: Hold) -> Iterator[Line]:
    spec = story.spec(hold.head)
    alike = f", and {hold.waiting - 1} alike" if hold.waiting > 1 else ""
    waited = write_duration(step.now_ms - story.since(hold.head))
    size = write_size(spec)
    yield Line(text=f"  {hold.head}{alike}: {size} for {spec.queue}, submitted {waited} ago")
    for reason in write_reasons(hold):
        for number, part in enumerate(wrap(reason, WIDTH - 8, break_on_hyphens=False)):
            yield Line(text=f"    {'  ' if number else '- '}{part}")


# -- all together --------------------------------------------------------------------------------


def tell(simulation: Simulation, *, verbose: bool) -> Iterator[Line]:
    """Run a simulation to its end and tell it: the fleet, what happened, the numbers, and why."""
    report, story = Report(simulation.state, stretch_ms=STRETCH_MS), Story(simulation.state)
    introduction = list(_introduce(simulation.state))
    for step in simulation.steps():
        report.note(step)
        story.note(step)
    yield from introduction
    yield from heading("What happened")
    yield from timeline(story.moments, most_lines=None if verbose else MOST_TIMELINE_LINES)
    yield from team_table(report)
    yield from utilisation_rows(report)
    yield from why(story, most_jobs=None if verbose else MOST_JOBS_EXPLAINED)
    unfinished = report.unfinished()
    if unfinished:
        yield from heading(f"Never finished: {', '.join(unfinished)}")


def _introduce(state: FleetState) -> Iterator[Line]:
    yield Line(text="The fleet and who shares it", tone=HEADING)
    for name, pool in sorted(state.pools.items()):
        spec = pool.spec
        model = spec.gpu_model.name if spec.gpu_model else "no GPU"
        each = write_usd(spec.node_micro_usd_per_hour // max(1, spec.gpus_per_node))
        size = f"{counted(len(pool.nodes), 'node')} x {spec.gpus_per_node} {model}"
        yield Line(text=f"  pool {name}: {size}, {spec.market}, {each} a GPU-hour")
    for name, tenant in sorted(state.tenants.items()):
        if not tenant.is_queue:
            continue
        owned = [
            f"{write_gpus(quota.nominal)} of {flavor}{_borrows(quota)}"
            for (flavor, resource), quota in sorted(tenant.quotas.items())
            if resource == GPU and quota.nominal
        ]
        yield Line(text=f"  queue {name}: {'; '.join(owned) or 'no quota of its own'}")


def _borrows(quota: Quota) -> str:
    if quota.borrowing_limit is None:
        return ", borrows what is idle"
    return f", borrows up to {write_gpus(quota.borrowing_limit)}"

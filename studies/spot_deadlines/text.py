"""The results of the published study as text, compared with the published figures."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.simulate.report.aligned import aligned
from bursar.simulate.spot_study.cells import OPTIMUM, OURS, StudyCell
from bursar.simulate.spot_study.study import SpotOutcome
from bursar.simulate.spot_study.text import closing_lines, rules_table
from studies.spot_deadlines.published_tables import PUBLISHED
from studies.spot_deadlines.study import TABLES, TRACES, mean_above_optimum

PUBLISHED_RULES = ("greedy", "uniform-progress")


def published_text(outcome: SpotOutcome) -> str:
    """Tables of mean dollars per job, one for each part."""
    parts: dict[str, list[StudyCell]] = {}
    for cell in outcome.cells:
        parts.setdefault(cell.part, []).append(cell)
    pieces = []
    for part, cells in parts.items():
        pieces.append(_by_series(cells) if part in (TRACES, TABLES) else rules_table(cells))
    return "\n".join([*pieces, *closing_lines(outcome)])


def _by_series(cells: Sequence[StudyCell]) -> str:
    rules = _rules(cells)
    head = ["traces", "series", "job h", "due h", "change-over h", "jobs"]
    head += [f"{rule} $" for rule in rules]
    head += ["above optimum", "missed"]
    rows = []
    for cell in cells:
        size = cell.size
        row = [cell.group, cell.name, f"{size.job_hours:g}", f"{size.deadline_hours:g}"]
        row += [f"{size.change_over_hours:g}", f"{next(iter(cell.tallies.values())).runs:,}"]
        row += [f"{cell.tallies[rule].mean_usd:.2f}" for rule in rules]
        row += [_percent(cell.above_optimum(OURS)), _missed(cell)]
        rows.append(row)
    lines = "\n".join(aligned([head, *rows], text_columns=2)) + "\n"
    sums = [cell for cell in cells if cell.name == "all"]
    for rule in (*PUBLISHED_RULES, OURS):
        mean = mean_above_optimum(sums, rule)
        if mean is not None:
            lines += f"{rule} is {mean:.1%} above the optimum, as the mean of {len(sums)} rows\n"
    return lines + _compared_with_published(cells)


def _compared_with_published(cells: Sequence[StudyCell]) -> str:
    """The published and our costs of greedy and Uniform Progress."""
    totals = {(cell.group, cell.size): cell for cell in cells if cell.name == "all"}
    rows = []
    for one in PUBLISHED:
        cell = totals.get((one.group, one.size))
        if cell is None or not set(PUBLISHED_RULES) <= set(cell.tallies):
            continue
        row = [one.group, f"{one.deadline_hours:g}", f"{one.change_over_hours:g}"]
        for rule, usd in zip(
            PUBLISHED_RULES, (one.greedy_usd, one.uniform_progress_usd), strict=True
        ):
            row += [f"{usd:.2f}", f"{cell.tallies[rule].mean_usd:.2f}"]
        rows.append(row)
    if not rows:
        return ""
    head = ["traces", "due h", "change-over h", "greedy published $", "here $"]
    head += ["uniform-progress published $", "here $"]
    return "\n" + "\n".join(aligned([head, *rows])) + "\n"


def _rules(cells: Sequence[StudyCell]) -> list[str]:
    present = {rule for cell in cells for rule in cell.tallies}
    return [rule for rule in (*POLICIES, OPTIMUM) if rule in present]


def _missed(cell: StudyCell) -> str:
    return str(sum(tally.missed for tally in cell.tallies.values()))


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{fraction:.1%}"

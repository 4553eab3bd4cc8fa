"""A study for people, and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.deadline import POLICIES
from bursar.simulate.measures.plain import Plain
from bursar.simulate.spot_study.cells import OPTIMUM, OURS, Cell
from bursar.simulate.spot_study.published_tables import PUBLISHED
from bursar.simulate.spot_study.study import TABLES, TRACES, SpotOutcome, mean_above_optimum

BASELINE = "on-demand"
PUBLISHED_RULES = ("greedy", "uniform-progress")


def tell_spot(outcome: SpotOutcome) -> str:
    """Tables of mean dollars per job, one for each part."""
    parts: dict[str, list[Cell]] = {}
    for cell in outcome.cells:
        parts.setdefault(cell.part, []).append(cell)
    pieces = []
    for part, cells in parts.items():
        pieces.append(_by_series(cells) if part in (TRACES, TABLES) else _by_rule(cells))
    pieces += [f"left out: {reason}\n" for reason in outcome.left_out]
    if not outcome.complete:
        pieces.append("stopped early: what is shown is not everything that was asked for\n")
    return "\n".join(pieces)


def _by_series(cells: Sequence[Cell]) -> str:
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
        row += [_part(cell.above_optimum(OURS)), _missed(cell)]
        rows.append(row)
    lines = _aligned(head, rows, text_columns=2)
    sums = [cell for cell in cells if cell.name == "all"]
    for rule in (*PUBLISHED_RULES, OURS):
        mean = mean_above_optimum(sums, rule)
        if mean is not None:
            lines += f"{rule} is {mean:.1%} above the optimum, as the mean of {len(sums)} rows\n"
    return lines + _beside_published(cells)


def _beside_published(cells: Sequence[Cell]) -> str:
    """What greedy and Uniform Progress cost where it was published, beside what they cost here."""
    found = {(cell.group, cell.size): cell for cell in cells if cell.name == "all"}
    rows = []
    for one in PUBLISHED:
        cell = found.get((one.group, one.size))
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
    return "\n" + _aligned(head, rows, text_columns=1)


def _by_rule(cells: Sequence[Cell]) -> str:
    head = ["rule", "jobs", "$ per job", "against on-demand", "on-demand h", "spot h", "wall h"]
    head += ["lost h", "change-overs", "missed"]
    told = ""
    for cell in cells:
        size = cell.size
        told += f"{cell.part}: {cell.group} {cell.name}".rstrip()
        told += f", {size.job_hours:g} h job, {size.deadline_hours:g} h deadline, "
        told += f"{size.change_over_hours:g} h change-over\n"
        rows = []
        baseline = cell.tallies.get(BASELINE)
        for rule, tally in cell.tallies.items():
            row = [rule, f"{tally.runs:,}", f"{tally.mean_usd:.2f}"]
            row.append(
                f"{tally.mean_usd / baseline.mean_usd - 1:+.1%}"
                if baseline and baseline.runs
                else ""
            )
            if rule != OPTIMUM:
                times = (tally.on_demand_ms, tally.spot_ms, tally.wall_ms, tally.lost_ms)
                row += [f"{tally.mean_hours(one):.1f}" for one in times]
                row += [f"{tally.change_overs / max(1, tally.runs):.1f}", str(tally.missed)]
            rows.append(row + [""] * (len(head) - len(row)))
        told += _aligned(head, rows, text_columns=1) + "\n"
    return told.removesuffix("\n")


def _rules(cells: Sequence[Cell]) -> list[str]:
    there = {rule for cell in cells for rule in cell.tallies}
    return [rule for rule in (*POLICIES, OPTIMUM) if rule in there]


def _missed(cell: Cell) -> str:
    return str(sum(tally.missed for tally in cell.tallies.values()))


def _part(part: float | None) -> str:
    return "" if part is None else f"{part:.1%}"


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int) -> str:
    """Words to the left, numbers to the right."""
    table = [head, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    lines = ""
    for row in table:
        cells = [
            cell.ljust(width) if column < text_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines += "  ".join(cells).rstrip() + "\n"
    return lines


def spot_json(outcome: SpotOutcome) -> dict[str, Plain]:
    """Every row with every tally; times in milliseconds, money in micro-dollars, means beside them."""
    return {
        "complete": outcome.complete,
        "left_out": list(outcome.left_out),
        "cells": [_cell_json(cell) for cell in outcome.cells],
    }


def _cell_json(cell: Cell) -> dict[str, Plain]:
    size = cell.size
    rules: dict[str, Plain] = {}
    for rule, tally in cell.tallies.items():
        figures: dict[str, Plain] = {
            "jobs": tally.runs,
            "mean_usd": round(tally.mean_usd, 4),
            "cost_micro_usd": tally.cost_micro_usd,
        }
        above = cell.above_optimum(rule)
        if above is not None:
            figures["above_optimum"] = round(above, 6)
        if rule != OPTIMUM:
            figures |= {
                "on_demand_ms": tally.on_demand_ms,
                "spot_ms": tally.spot_ms,
                "wall_ms": tally.wall_ms,
                "lost_ms": tally.lost_ms,
                "change_overs": tally.change_overs,
                "missed_deadlines": tally.missed,
            }
        rules[rule] = figures
    return {
        "part": cell.part,
        "traces": cell.group,
        "name": cell.name,
        "job_hours": size.job_hours,
        "deadline_hours": size.deadline_hours,
        "change_over_hours": size.change_over_hours,
        "rules": rules,
    }

"""The results of a spot study as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bursar.simulate.report.aligned import aligned
from bursar.simulate.spot_study.cells import OPTIMUM, StudyCell
from bursar.simulate.spot_study.study import SpotOutcome

BASELINE = "on-demand"


def spot_text(outcome: SpotOutcome) -> str:
    """A table for each pool, and what was left out."""
    return "\n".join([rules_table(outcome.cells), *closing_lines(outcome)])


def closing_lines(outcome: SpotOutcome) -> list[str]:
    """What was left out, and whether the study was stopped."""
    lines = [f"left out: {reason}\n" for reason in outcome.left_out]
    if not outcome.complete:
        lines.append("stopped early: the results are incomplete\n")
    return lines


def rules_table(cells: Sequence[StudyCell]) -> str:
    """One table for each row of a study: the cost of its jobs under each rule."""
    head = ["rule", "jobs", "$ per job", "against on-demand", "on-demand h", "spot h", "wall h"]
    head += ["lost h", "change-overs", "missed"]
    lines = ""
    for cell in cells:
        size = cell.size
        lines += f"{cell.part}: {' '.join(filter(None, (cell.group, cell.name)))}"
        lines += f", {size.job_hours:g} h job, {size.deadline_hours:g} h deadline, "
        lines += f"{size.change_over_hours:g} h change-over\n"
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
        lines += "\n".join(aligned([head, *rows])) + "\n\n"
    return lines.removesuffix("\n")


def spot_json(outcome: SpotOutcome) -> dict[str, Any]:
    """Every row with its tallies and means; times in milliseconds, money in micro-dollars."""
    return {
        "complete": outcome.complete,
        "left_out": list(outcome.left_out),
        "cells": [_cell_json(cell) for cell in outcome.cells],
    }


def _cell_json(cell: StudyCell) -> dict[str, Any]:
    size = cell.size
    rules: dict[str, Any] = {}
    for rule, tally in cell.tallies.items():
        figures: dict[str, Any] = {
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

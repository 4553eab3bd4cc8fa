"""Spot under deadlines: every cell of both published tables, all starts, one process for each core."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.figure import Figure
from bursar.model.errors import UserError
from bursar.simulate.spot_study.cells import OURS
from studies.spot_deadlines import SpotRequest, run_spot_study
from studies.spot_deadlines.published_tables import PUBLISHED
from studies.spot_deadlines.study import TABLES, mean_above_optimum

TRACES = Path(os.environ.get("BURSAR_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
THEIRS = "uniform-progress"


def figures() -> list[Figure]:
    """Mean dollars of a 48-hour job, and how far ours is above the clairvoyant optimum."""
    try:
        outcome = run_spot_study(SpotRequest(traces=TRACES, parts=(TABLES,)))
    except UserError as error:
        return [
            Figure(scenario="spot deadlines", what="not run", measured="-", reference=error.problem)
        ]
    cells = {(cell.group, cell.size): cell for cell in outcome.cells}
    found = []
    for one in PUBLISHED:
        cell = cells[one.group, one.size]
        name = (
            f"{one.group.rpartition('/')[2]}, {one.deadline_hours:g} h, {one.change_over_hours:g} h"
        )
        theirs, ours = cell.tallies[THEIRS], cell.tallies[OURS]
        found += [
            Figure(
                scenario=name,
                what="uniform progress, $",
                measured=f"{theirs.mean_usd:.2f}",
                reference=f"published {one.uniform_progress_usd:.2f}",
            ),
            Figure(
                scenario=name,
                what="ours, $; above optimum; missed",
                measured=f"{ours.mean_usd:.2f}; {cell.above_optimum(OURS):.1%}; {ours.missed}",
                reference=f"below {theirs.mean_usd:.2f}",
            ),
        ]
    mean = mean_above_optimum(outcome.cells, OURS)
    found.append(
        Figure(
            scenario="all cells",
            what="ours above the optimum",
            measured=f"{mean:.1%}",
            reference="at most 10 %",
        )
    )
    return found

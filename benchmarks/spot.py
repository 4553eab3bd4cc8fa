"""Deadlines on spot: every cell of both published tables, all starts, one process per core."""

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
    """Mean cost of a 48-hour job, and our excess over the clairvoyant optimum."""
    try:
        outcome = run_spot_study(SpotRequest(traces=TRACES, parts=(TABLES,)))
    except UserError as error:
        return [
            Figure(scenario="spot deadlines", what="not run", measured="-", reference=error.problem)
        ]
    cells = {(cell.group, cell.size): cell for cell in outcome.cells}
    rows = []
    for published in PUBLISHED:
        cell = cells[published.group, published.size]
        group = published.group.rpartition("/")[2]
        name = f"{group}, {published.deadline_hours:g} h, {published.change_over_hours:g} h"
        theirs, ours = cell.tallies[THEIRS], cell.tallies[OURS]
        rows += [
            Figure(
                scenario=name,
                what="Uniform Progress, mean $",
                measured=f"{theirs.mean_usd:.2f}",
                reference=f"published {published.uniform_progress_usd:.2f}",
            ),
            Figure(
                scenario=name,
                what="ours, mean $; above optimum; missed deadlines",
                measured=f"{ours.mean_usd:.2f}; {cell.above_optimum(OURS):.1%}; {ours.missed}",
                reference=f"target below {theirs.mean_usd:.2f}",
            ),
        ]
    mean = mean_above_optimum(outcome.cells, OURS)
    rows.append(
        Figure(
            scenario="all cells",
            what="ours, above optimum",
            measured=f"{mean:.1%}",
            reference="target at most 10 %",
        )
    )
    return rows

"""Runs the parts of the published study of spot and deadlines as tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.model.errors import UserError
from bursar.model.units import HOUR_MS
from bursar.simulate.parallel_tasks import Watch
from bursar.simulate.spot_study.cells import OPTIMUM, JobSize, StudyCell
from bursar.simulate.spot_study.study import SpotOutcome, SpotTask, check_rules, run_tasks
from studies.spot_deadlines import fine_tuning, price_history, zones
from studies.spot_deadlines.published_tables import PUBLISHED
from studies.spot_deadlines.series import ON_DEMAND_MICRO_USD, SeriesTask
from studies.spot_deadlines.sources import (
    PRICED_WINDOWS,
    TWO_MONTHS,
    prices_folder,
    read_cases,
    spot_folder,
)

TRACES: Final = "traces"
TABLES: Final = "published"
PARTS: Final = (TRACES, TABLES, zones.PART, price_history.PART, fine_tuning.PART)
WINDOWS_IN_A_TASK: Final = 5
SEEDS_IN_A_TASK: Final = 50
LONGEST_ZONE_HOURS: Final = 59.9
"""The priced windows are a few minutes shorter than 60 hours."""

DEFAULT_SIZE: Final = JobSize()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRequest:
    """The folder of traces, the job, the rules, and the parts of the study."""

    traces: Path
    size: JobSize = DEFAULT_SIZE
    rules: Sequence[str] = tuple(POLICIES)
    parts: Sequence[str] = (TRACES,)
    limit: int | None = None


def run_spot_study(
    request: SpotRequest, watch: Watch | None = None, *, processes: int | None = None
) -> SpotOutcome:
    """Reads the traces, runs the tasks in parallel, and sums the rows."""
    check_request(request)
    tasks, left_out = _tasks(request)
    rows, complete = run_tasks(tasks, watch, processes=processes)
    return SpotOutcome(cells=tuple(_sum_rows(rows)), left_out=tuple(left_out), complete=complete)


def check_request(request: SpotRequest) -> None:
    """Rejects unknown rules and parts, and an impossible job, before anything is read."""
    check_rules(request.rules)
    for name in request.parts:
        if name not in PARTS:
            raise UserError(
                f"'{name}' is not a part of the spot study.",
                fix=f"Choose from {', '.join(PARTS)}.",
                code="unknown-spot-part",
            )
    request.size.terms(60_000, ON_DEMAND_MICRO_USD)


def _tasks(request: SpotRequest) -> tuple[list[SpotTask], list[str]]:
    folder = spot_folder(request.traces)
    tasks: list[SpotTask] = []
    left_out: list[str] = []
    for part in PARTS:
        if part not in request.parts:
            continue
        if part == TRACES:
            tasks += _series_tasks(folder, request)
        elif part == TABLES:
            tasks += _table_tasks(folder, request)
        elif part == zones.PART:
            tasks += _zone_tasks(folder, request, left_out)
        elif part == price_history.PART:
            tasks += _price_tasks(request, left_out)
        else:
            tasks += _fine_tuning_tasks(folder, request, left_out)
    return tasks, left_out


def _series_tasks(folder: Path, request: SpotRequest) -> list[SpotTask]:
    deadline_ms = round(request.size.deadline_hours * HOUR_MS)
    return [
        SeriesTask(
            part=TRACES, case=case, size=request.size, rules=request.rules, limit=request.limit
        )
        for case in read_cases(folder, deadline_ms)
    ]


def _table_tasks(folder: Path, request: SpotRequest) -> list[SpotTask]:
    """Cells with the same change-over are adjacent, because they share cached policy tables."""
    tasks: list[SpotTask] = []
    for cell in sorted(PUBLISHED, key=lambda one: one.change_over_hours):
        for case in read_cases(folder, round(cell.deadline_hours * HOUR_MS)):
            if case.group == cell.group:
                tasks.append(
                    SeriesTask(
                        part=TABLES,
                        case=case,
                        size=cell.size,
                        rules=request.rules,
                        limit=request.limit,
                    )
                )
    return tasks


def _zone_tasks(folder: Path, request: SpotRequest, left_out: list[str]) -> list[SpotTask]:
    archive = folder / PRICED_WINDOWS
    if not archive.is_file():
        left_out.append(f"{zones.PART}: {archive} is absent")
        return []
    size = request.size
    if size.deadline_hours > LONGEST_ZONE_HOURS:
        size = replace(size, deadline_hours=LONGEST_ZONE_HOURS)
        if size.job_hours + size.change_over_hours > LONGEST_ZONE_HOURS - 1:
            left_out.append(f"{zones.PART}: the job does not fit in windows of 60 h")
            return []
    numbers = zones.window_numbers(archive)[: request.limit]
    return [
        zones.ZonesTask(
            archive=archive,
            windows=numbers[first : first + WINDOWS_IN_A_TASK],
            size=size,
            rules=request.rules,
        )
        for first in range(0, len(numbers), WINDOWS_IN_A_TASK)
    ]


def _price_tasks(request: SpotRequest, left_out: list[str]) -> list[SpotTask]:
    folder = prices_folder(request.traces)
    if folder is None:
        left_out.append(f"{price_history.PART}: no folder cloud_prices next to the spot traces")
        return []
    return [
        price_history.PricesTask(
            folder=folder,
            family=family,
            size=request.size,
            rules=request.rules,
            limit=request.limit,
        )
        for family in price_history.FAMILIES
    ]


def _fine_tuning_tasks(folder: Path, request: SpotRequest, left_out: list[str]) -> list[SpotTask]:
    size = fine_tuning.SIZE
    cases = tuple(
        case
        for case in read_cases(folder, round(size.deadline_hours * HOUR_MS))
        if case.group == TWO_MONTHS
    )
    if not cases:
        left_out.append(f"{fine_tuning.PART}: the archive has no {TWO_MONTHS}")
        return []
    seeds = range(min(request.limit or fine_tuning.SEEDS, fine_tuning.SEEDS))
    return [
        fine_tuning.FineTuningTask(
            cases=cases, seeds=seeds[first : first + SEEDS_IN_A_TASK], rules=request.rules
        )
        for first in range(0, len(seeds), SEEDS_IN_A_TASK)
    ]


def _sum_rows(rows: Sequence[StudyCell]) -> list[StudyCell]:
    """Merges rows with the same part, group, name and size; series also get a total per group."""
    cells: dict[tuple[str, str, str, JobSize], StudyCell] = {}
    for row in rows:
        names = {row.name} if row.part != TABLES else set()
        if row.part in (TRACES, TABLES):
            names.add("all")
        for name in sorted(names):
            key = (row.part, row.group, name, row.size)
            if key not in cells:
                cells[key] = StudyCell(part=row.part, group=row.group, name=name, size=row.size)
            cells[key].merge(row)
    order = {(cell.group, cell.size): number for number, cell in enumerate(PUBLISHED)}
    return sorted(
        cells.values(),
        key=lambda cell: (
            PARTS.index(cell.part),
            cell.group,
            order.get((cell.group, cell.size), 0) if cell.part == TABLES else 0,
            cell.name == "all",
            cell.name,
            cell.size.deadline_hours,
        ),
    )


def mean_above_optimum(cells: Sequence[StudyCell], rule: str) -> float | None:
    """The unweighted mean over the rows."""
    values = [cell.above_optimum(rule) for cell in cells if OPTIMUM in cell.tallies]
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None

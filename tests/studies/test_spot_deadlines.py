"""Spot under deadlines: published costs are reproduced to the cent, and our rule costs less."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.model.errors import UserError
from bursar.model.units import HOUR_MS
from bursar.simulate.spot_study.cells import OPTIMUM, OURS, JobSize, StudyCell
from bursar.simulate.spot_study.text import spot_json
from studies.spot_deadlines import SpotRequest, run_spot_study
from studies.spot_deadlines.fine_tuning import SEEDS, hours_between_failures_seen
from studies.spot_deadlines.published_tables import PUBLISHED
from studies.spot_deadlines.series import SeriesTask
from studies.spot_deadlines.sources import TWO_WEEKS, read_cases, spot_folder
from studies.spot_deadlines.text import published_text
from tests.tidy.source import ROOT

FOLDER = Path(os.environ.get("BURSAR_TRACES") or ROOT.parent / "shared" / "traces")


@pytest.fixture
def traces() -> Path:
    try:
        spot_folder(FOLDER)
    except UserError:
        pytest.skip(f"no spot traces in {FOLDER}; set BURSAR_TRACES to the folder of the traces")
    return FOLDER


# -- the published traces --------------------------------------------------------------------------


def study(traces: Path, part: str, limit: int | None, *rules: str) -> list[StudyCell]:
    request = SpotRequest(traces=traces, parts=(part,), limit=limit, rules=rules or tuple(POLICIES))
    outcome = run_spot_study(request, processes=1)
    assert outcome.complete and not outcome.left_out
    return list(outcome.cells)


@pytest.mark.thorough
def test_greedy_and_uniform_progress_reproduce_published_costs_to_the_cent(traces: Path) -> None:
    rules = ("on-demand", "greedy", "uniform-progress")
    whole = StudyCell(part="", group=TWO_WEEKS, name="", size=JobSize())
    for case in read_cases(spot_folder(traces), 60 * HOUR_MS):
        if case.group == TWO_WEEKS:
            task = SeriesTask(part="", case=case, size=JobSize(), rules=rules, with_optimum=False)
            whole.merge(task.run()[0])
    assert [whole.tallies[rule].runs for rule in rules] == [2_400] * 3
    assert [whole.tallies[rule].missed for rule in rules] == [0] * 3
    found = [f"{whole.tallies[rule].mean_usd:.2f}" for rule in rules]
    assert found == ["147.90", "116.01", "106.92"]


@pytest.mark.thorough
def test_ours_costs_less_than_uniform_progress_in_every_published_cell(traces: Path) -> None:
    """A part of the starts of each cell; ``python -m benchmarks spot`` runs them all."""
    cells = study(traces, "published", 10, "uniform-progress", OURS)
    assert {(cell.group, cell.size) for cell in cells} == {
        (cell.group, cell.size) for cell in PUBLISHED
    }
    for cell in cells:
        ours, theirs = cell.tallies[OURS], cell.tallies["uniform-progress"]
        assert ours.mean_usd < theirs.mean_usd, cell
        assert ours.missed == theirs.missed == 0
    above = [cell.above_optimum(OURS) for cell in cells]
    assert all(part is not None and part >= 0 for part in above)
    assert sum(part or 0.0 for part in above) / len(above) <= 0.10


@pytest.mark.thorough
def test_with_nine_zones_ours_costs_far_less_than_with_one(traces: Path) -> None:
    (cell,) = study(traces, "zones", 1, "on-demand", OURS)
    ours = cell.tallies[OURS]
    assert ours.missed == 0
    assert (
        cell.tallies[OPTIMUM].mean_usd <= ours.mean_usd < cell.tallies["mean single zone"].mean_usd
    )


@pytest.mark.thorough
def test_three_days_of_fine_tuning_cost_less_than_half(traces: Path) -> None:
    (cell,) = study(traces, "fine-tuning", 10, "on-demand", OURS)
    ours = cell.tallies[OURS]
    assert SEEDS == 1_000 and ours.runs == 10
    assert ours.missed == 0 and ours.lost_ms > 0
    assert ours.mean_usd < cell.tallies["on-demand"].mean_usd / 2


def test_text_and_json_have_the_same_numbers(traces: Path) -> None:
    request = SpotRequest(traces=traces, limit=1, rules=("greedy", "uniform-progress"))
    outcome = run_spot_study(request, processes=1)
    text, plain = published_text(outcome), spot_json(outcome)
    assert plain["complete"] is True
    cells = plain["cells"]
    assert isinstance(cells, list) and len(cells) == len(outcome.cells)
    for cell in outcome.cells:
        assert cell.group in text and f"{cell.tallies['greedy'].mean_usd:.2f}" in text


# -- what can be wrong -----------------------------------------------------------------------------


def test_a_folder_without_traces_is_an_error_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no spot_availability_skypilot") as refused:
        run_spot_study(SpotRequest(traces=tmp_path))
    assert "BURSAR_TRACES" in refused.value.fix


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (SpotRequest(traces=Path(), rules=("fastest",)), "uniform-progress"),
        (SpotRequest(traces=Path(), parts=("zone",)), "fine-tuning"),
        (SpotRequest(traces=Path(), size=JobSize(deadline_hours=48)), "later deadline"),
    ],
)
def test_an_invalid_option_is_reported_with_the_valid_ones(
    request_: SpotRequest, word: str
) -> None:
    with pytest.raises(UserError) as refused:
        run_spot_study(request_)
    assert word in refused.value.fix


def test_a_rate_that_was_seen_becomes_hours() -> None:
    assert hours_between_failures_seen(76, 3) == 25.0

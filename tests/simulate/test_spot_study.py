"""Spot under deadlines: exact optima, published figures to the cent, and ours below them."""

from __future__ import annotations

import os
import random
from functools import cache
from pathlib import Path

import pytest

from bursar.core.deadline import POLICIES, DeadlineTerms
from bursar.model.errors import UserError
from bursar.model.units import HOUR_MS
from bursar.simulate.spot_study import JobSize, SpotRequest, run_spot_study
from bursar.simulate.spot_study.cells import OPTIMUM, OURS, Cell, SeriesTask
from bursar.simulate.spot_study.fine_tuning import SEEDS
from bursar.simulate.spot_study.market import PoolTrack, markets, one_price
from bursar.simulate.spot_study.optimum import optimum_of_one_pool, optimum_of_pools
from bursar.simulate.spot_study.published_tables import PUBLISHED
from bursar.simulate.spot_study.replay import replay
from bursar.simulate.spot_study.sources import TWO_WEEKS, read_cases, spot_folder
from bursar.simulate.spot_study.text import spot_json, tell_spot
from tests.tidy.source import ROOT

FOLDER = Path(os.environ.get("BURSAR_TRACES") or ROOT.parent / "shared" / "traces")


@pytest.fixture
def traces() -> Path:
    try:
        spot_folder(FOLDER)
    except UserError:
        pytest.skip(f"no spot traces in {FOLDER}; set BURSAR_TRACES to the folder of the traces")
    return FOLDER


# -- the optimum -----------------------------------------------------------------------------------


def by_brute_force(terms: DeadlineTerms, prices: list[tuple[int, ...]]) -> int:
    """Try everything: wait, each pool with room, on demand, at every tick; work left is counted."""

    @cache
    def least(tick: int, place: int, pending_ms: int, remaining_ms: int) -> int:
        if remaining_ms <= 0:
            return 0
        if tick == terms.ticks:
            return 10**15
        options = (*prices[tick], terms.on_demand_micro_usd)
        if place >= 0 and not options[place]:
            place, pending_ms = -1, 0
        best = least(tick + 1, -1, 0, remaining_ms)
        for other, price in enumerate(options):
            if price:
                wait_ms = pending_ms if other == place else terms.change_over_ms
                left_ms = remaining_ms - max(0, terms.tick_ms - wait_ms)
                after = least(tick + 1, other, max(0, wait_ms - terms.tick_ms), left_ms)
                best = min(best, price + after)
        return best

    return round(least(0, -1, 0, terms.work_ms) * terms.tick_ms / HOUR_MS)


def small_terms(chance: random.Random, ticks: int) -> DeadlineTerms:
    tick_ms = HOUR_MS
    change_over_ms = chance.choice([1, 3, 5, 8, 10, 12, 15, 24]) * tick_ms // 10
    most = ticks * tick_ms - change_over_ms
    return DeadlineTerms(
        work_ms=chance.randrange(1, most // 100) * 100 if most > 200 else 100,
        deadline_ms=ticks * tick_ms + chance.randrange(0, tick_ms),
        change_over_ms=change_over_ms,
        tick_ms=tick_ms,
        on_demand_micro_usd=chance.randrange(20, 40),
    )


def drawn_room(chance: random.Random, ticks: int) -> list[int]:
    turns = chance.random()
    room = [chance.random() < 0.5]
    while len(room) < ticks:
        room.append(room[-1] ^ (chance.random() < turns))
    return [int(one) for one in room]


def test_the_optimum_of_one_pool_is_that_of_trying_everything() -> None:
    for seed in range(250):
        chance = random.Random(seed)
        ticks = chance.randrange(5, 15)
        terms, room = small_terms(chance, ticks), drawn_room(chance, ticks)
        price = chance.randrange(1, 25)
        wanted = by_brute_force(terms, [(price * one,) for one in room])
        assert optimum_of_one_pool(terms, room, price) == wanted, f"seed {seed}"


def test_the_optimum_of_several_pools_is_that_of_trying_everything() -> None:
    for seed in range(80):
        chance = random.Random(seed)
        ticks = chance.randrange(5, 10)
        terms = small_terms(chance, ticks)
        rooms = [drawn_room(chance, ticks) for _ in range(2)]
        prices = [
            tuple(one * chance.randrange(1, 25) for one in both)
            for both in zip(*rooms, strict=True)
        ]
        assert optimum_of_pools(terms, prices) == by_brute_force(terms, prices), f"seed {seed}"


def test_no_rule_costs_less_than_the_optimum() -> None:
    terms = JobSize(job_hours=4, deadline_hours=6).terms(600_000)
    for seed in range(30):
        room = drawn_room(random.Random(seed), terms.ticks)
        seen = markets([one_price("a", room, 900_000)], terms.tick_ms)
        least = optimum_of_one_pool(terms, room, 900_000)
        for name, rule in POLICIES.items():
            run = replay(terms, seen, rule)
            assert run.finished_ms is not None and run.cost_micro_usd >= least, f"{name}, {seed}"


# -- replay ----------------------------------------------------------------------------------------


def test_a_tick_is_billed_whole_and_a_change_over_too() -> None:
    terms = JobSize(job_hours=1, deadline_hours=3).terms(600_000)
    run = replay(terms, markets([one_price("a", [1] * 18, 600_000)], 600_000), POLICIES["greedy"])
    assert run.finished_ms == run.spot_ms == 8 * 600_000, "60 min and 12 min are 7.2 ticks"
    assert run.cost_micro_usd == 800_000


def test_a_loss_undoes_the_work_since_the_last_save() -> None:
    terms = JobSize(job_hours=2, deadline_hours=10).terms(600_000)
    room = [1] * 6 + [0] + [1] * 53
    seen = markets([one_price("a", room, 600_000)], 600_000)
    run = replay(terms, seen, POLICIES["greedy"], save_every_ms=30 * 60_000)
    assert (run.losses, run.lost_ms) == (1, 18 * 60_000), "48 min were done, 30 were saved"


def test_the_market_at_a_tick_does_not_know_what_comes_after() -> None:
    chance = random.Random(5)
    rooms = [drawn_room(chance, 200) for _ in range(3)]
    tracks = [PoolTrack(pool=f"z{n}", prices_micro_usd=room) for n, room in enumerate(rooms)]
    cut = [PoolTrack(pool=one.pool, prices_micro_usd=one.prices_micro_usd[:90]) for one in tracks]
    assert markets(tracks, 195_000)[:90] == markets(cut, 195_000)
    assert markets(tracks[:1], 195_000)[:90] == markets(cut[:1], 195_000)


# -- the published traces --------------------------------------------------------------------------


def study(traces: Path, part: str, limit: int | None, *rules: str) -> list[Cell]:
    request = SpotRequest(traces=traces, parts=(part,), limit=limit, rules=rules or tuple(POLICIES))
    outcome = run_spot_study(request, processes=1)
    assert outcome.complete and not outcome.left_out
    return list(outcome.cells)


def test_greedy_and_uniform_progress_cost_what_was_published_to_the_cent(traces: Path) -> None:
    rules = ("on-demand", "greedy", "uniform-progress")
    whole = Cell(part="", group=TWO_WEEKS, name="", size=JobSize())
    for case in read_cases(spot_folder(traces), 60 * HOUR_MS):
        if case.group == TWO_WEEKS:
            task = SeriesTask(part="", case=case, size=JobSize(), rules=rules, with_optimum=False)
            whole.merge(task.run()[0])
    assert [whole.tallies[rule].runs for rule in rules] == [2_400] * 3
    assert [whole.tallies[rule].missed for rule in rules] == [0] * 3
    found = [f"{whole.tallies[rule].mean_usd:.2f}" for rule in rules]
    assert found == ["147.90", "116.01", "106.92"]


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


def test_with_nine_zones_ours_is_far_below_a_single_zone(traces: Path) -> None:
    (cell,) = study(traces, "zones", 1, "on-demand", OURS)
    ours = cell.tallies[OURS]
    assert ours.missed == 0
    assert (
        cell.tallies[OPTIMUM].mean_usd <= ours.mean_usd < cell.tallies["mean single zone"].mean_usd
    )


def test_three_days_of_fine_tuning_cost_less_than_half(traces: Path) -> None:
    (cell,) = study(traces, "fine-tuning", 10, "on-demand", OURS)
    ours = cell.tallies[OURS]
    assert SEEDS == 1_000 and ours.runs == 10
    assert ours.missed == 0 and ours.lost_ms > 0
    assert ours.mean_usd < cell.tallies["on-demand"].mean_usd / 2


def test_text_and_json_say_the_same(traces: Path) -> None:
    request = SpotRequest(traces=traces, limit=1, rules=("greedy", "uniform-progress"))
    outcome = run_spot_study(request, processes=1)
    told, plain = tell_spot(outcome), spot_json(outcome)
    assert plain["complete"] is True
    cells = plain["cells"]
    assert isinstance(cells, list) and len(cells) == len(outcome.cells)
    for cell in outcome.cells:
        assert cell.group in told and f"{cell.tallies['greedy'].mean_usd:.2f}" in told


# -- what can be wrong -----------------------------------------------------------------------------


def test_a_folder_without_traces_is_told_with_the_way_out(tmp_path: Path) -> None:
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
def test_a_wrong_wish_is_answered_with_what_there_is(request_: SpotRequest, word: str) -> None:
    with pytest.raises(UserError) as refused:
        run_spot_study(request_)
    assert word in refused.value.fix

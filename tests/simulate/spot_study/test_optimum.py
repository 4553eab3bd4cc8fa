"""Spot under deadlines: exact optima, and replays of one job."""

from __future__ import annotations

import random
from functools import cache

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.core.deadline.inputs import DeadlineTerms
from bursar.model.units import HOUR_MS
from bursar.simulate.spot_study.cells import JobSize
from bursar.simulate.spot_study.market import PoolTrack, markets
from bursar.simulate.spot_study.optimum import optimum_of_one_pool, optimum_of_pools
from bursar.simulate.spot_study.replay import replay
from studies.spot_deadlines.series import constant_price_track

# -- the optimum -----------------------------------------------------------------------------------


def by_brute_force(terms: DeadlineTerms, prices: list[tuple[int, ...]]) -> int:
    """The lowest cost over all choices at every tick: wait, any available pool, or on demand."""

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


def random_availability(chance: random.Random, ticks: int) -> list[int]:
    turns = chance.random()
    available = [chance.random() < 0.5]
    while len(available) < ticks:
        available.append(available[-1] ^ (chance.random() < turns))
    return [int(one) for one in available]


def test_the_optimum_of_one_pool_equals_brute_force() -> None:
    for seed in range(250):
        chance = random.Random(seed)
        ticks = chance.randrange(5, 15)
        terms, available = small_terms(chance, ticks), random_availability(chance, ticks)
        price = chance.randrange(1, 25)
        expected = by_brute_force(terms, [(price * one,) for one in available])
        assert optimum_of_one_pool(terms, available, price) == expected, f"seed {seed}"


def test_the_optimum_of_several_pools_equals_brute_force() -> None:
    for seed in range(80):
        chance = random.Random(seed)
        ticks = chance.randrange(5, 10)
        terms = small_terms(chance, ticks)
        availabilities = [random_availability(chance, ticks) for _ in range(2)]
        prices = [
            tuple(one * chance.randrange(1, 25) for one in both)
            for both in zip(*availabilities, strict=True)
        ]
        assert optimum_of_pools(terms, prices) == by_brute_force(terms, prices), f"seed {seed}"


def test_no_rule_costs_less_than_the_optimum() -> None:
    terms = JobSize(job_hours=4, deadline_hours=6).terms(600_000, 3_060_000)
    for seed in range(30):
        available = random_availability(random.Random(seed), terms.ticks)
        seen = markets([constant_price_track("a", available, 900_000)], terms.tick_ms)
        least = optimum_of_one_pool(terms, available, 900_000)
        for name, rule in POLICIES.items():
            run = replay(terms, seen, rule)
            assert run.finished_ms is not None and run.cost_micro_usd >= least, f"{name}, {seed}"


# -- replay ----------------------------------------------------------------------------------------


def test_whole_ticks_and_change_overs_are_billed() -> None:
    terms = JobSize(job_hours=1, deadline_hours=3).terms(600_000, 3_060_000)
    run = replay(
        terms, markets([constant_price_track("a", [1] * 18, 600_000)], 600_000), POLICIES["greedy"]
    )
    assert run.finished_ms == run.spot_ms == 8 * 600_000, "60 min and 12 min are 7.2 ticks"
    assert run.cost_micro_usd == 800_000


def test_a_loss_discards_the_work_since_the_last_save() -> None:
    terms = JobSize(job_hours=2, deadline_hours=10).terms(600_000, 3_060_000)
    available = [1] * 6 + [0] + [1] * 53
    seen = markets([constant_price_track("a", available, 600_000)], 600_000)
    run = replay(terms, seen, POLICIES["greedy"], save_every_ms=30 * 60_000)
    assert (run.losses, run.lost_ms) == (1, 18 * 60_000), "48 min were done, 30 were saved"


def test_the_market_at_a_tick_does_not_depend_on_later_ticks() -> None:
    chance = random.Random(5)
    availabilities = [random_availability(chance, 200) for _ in range(3)]
    tracks = [
        PoolTrack(pool=f"z{n}", prices_micro_usd=available)
        for n, available in enumerate(availabilities)
    ]
    cut = [PoolTrack(pool=one.pool, prices_micro_usd=one.prices_micro_usd[:90]) for one in tracks]
    assert markets(tracks, 195_000)[:90] == markets(cut, 195_000)
    assert markets(tracks[:1], 195_000)[:90] == markets(cut[:1], 195_000)

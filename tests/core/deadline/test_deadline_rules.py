"""The rules for jobs with a deadline: the choice of each, and that ours never misses a feasible deadline."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bursar.core.deadline.availability import (
    AGES,
    HIGHEST_STEP,
    LOWEST_STEP,
    AvailabilityEstimate,
    AvailabilityTracker,
    expected_life_ms,
)
from bursar.core.deadline.deadline_rules import greedy, on_demand_only, uniform_progress
from bursar.core.deadline.expected_cost import best_offer, can_wait_one_tick, expected_cost
from bursar.core.deadline.inputs import (
    ON_DEMAND,
    WAIT,
    DeadlineProgress,
    DeadlineTerms,
    Location,
    SpotMarket,
    SpotOffer,
)
from bursar.core.deadline.policy_solver import transition_probabilities
from bursar.core.deadline.policy_table import TableKey
from bursar.model.errors import UserError
from bursar.model.units import HOUR_MS, MINUTE_MS
from tests.seeds import first_always

TICK_MS = 10 * MINUTE_MS
TERMS = DeadlineTerms(
    work_ms=10 * HOUR_MS,
    deadline_ms=14 * HOUR_MS,
    change_over_ms=12 * MINUTE_MS,
    tick_ms=TICK_MS,
    on_demand_micro_usd=3_000_000,
)
OLD = AvailabilityEstimate(up=True, age=7, up_step=0, down_step=0)
YOUNG = AvailabilityEstimate(up=True, age=0, up_step=0, down_step=0)
DROUGHT = AvailabilityEstimate(up=False, age=0, up_step=0, down_step=0)
SPOT = SpotMarket((SpotOffer("a", 1_000_000, OLD),), OLD, 1_000_000)
NONE = SpotMarket((), DROUGHT, 1_000_000)


DEAR = SpotMarket((SpotOffer("a", 4_000_000, OLD),), OLD, 4_000_000)


def progress(elapsed_h: float, remaining_h: float, place: Location = WAIT) -> DeadlineProgress:
    return DeadlineProgress(round(elapsed_h * HOUR_MS), round(remaining_h * HOUR_MS), 0, place)


CHOICES = {
    "on demand only never waits": (on_demand_only, progress(0, 10), SPOT, ON_DEMAND),
    "ours leaves spot that costs more than on demand": (
        expected_cost,
        progress(4, 9.7, "a"),
        DEAR,
        ON_DEMAND,
    ),
    "a job that is done needs nothing": (greedy, progress(5, 0, "a"), SPOT, WAIT),
    "greedy takes spot": (greedy, progress(0, 10), SPOT, "a"),
    "greedy waits for spot while there is time": (greedy, progress(0, 10), NONE, WAIT),
    "greedy goes on demand when time is short": (greedy, progress(4, 9.5), NONE, ON_DEMAND),
    "greedy keeps its spot machine when time is short": (
        greedy,
        progress(4, 9.5, "a"),
        SPOT,
        "a",
    ),
    "uniform progress waits on the line": (uniform_progress, progress(0, 10), NONE, WAIT),
    "uniform progress goes on demand behind the line": (
        uniform_progress,
        progress(1.4, 9.5),
        NONE,
        ON_DEMAND,
    ),
    "uniform progress holds on demand until it is ahead": (
        uniform_progress,
        progress(1.4, 9.0, ON_DEMAND),
        SPOT,
        ON_DEMAND,
    ),
    "uniform progress leaves on demand when two change-overs ahead": (
        uniform_progress,
        progress(1.4, 8.5, ON_DEMAND),
        SPOT,
        "a",
    ),
    "ours takes an old interval": (expected_cost, progress(0, 10), SPOT, "a"),
    "ours goes on demand when nothing else can meet the deadline": (
        expected_cost,
        progress(4, 9.7),
        SPOT,
        ON_DEMAND,
    ),
    "ours stays on spot as long as on demand could follow": (
        expected_cost,
        progress(4, 9.8, "a"),
        SPOT,
        "a",
    ),
    "ours waits while there is much time": (expected_cost, progress(0, 2), NONE, WAIT),
}


@pytest.mark.parametrize("sentence", sorted(CHOICES))
def test_choice(sentence: str) -> None:
    rule, now, market, wanted = CHOICES[sentence]
    assert rule(TERMS, now, market) == wanted


def test_ours_leaves_on_demand_for_a_long_spot_interval_but_not_for_a_new_one() -> None:
    now = progress(2, 9.0, ON_DEMAND)
    hurried = AvailabilityEstimate(up=True, age=0, up_step=HIGHEST_STEP, down_step=0)
    assert expected_cost(
        TERMS, now, SpotMarket((SpotOffer("a", 1_000_000, hurried),), hurried, 1)
    ) == (ON_DEMAND)
    assert expected_cost(TERMS, now, SPOT) == "a"


def test_of_two_pools_at_one_price_the_more_stable_is_chosen() -> None:
    market = SpotMarket(
        (SpotOffer("a", 1_000_000, YOUNG), SpotOffer("b", 1_000_000, OLD)), OLD, 1_000_000
    )
    assert best_offer(TERMS, progress(0, 10), market) == market.offers[1]
    assert best_offer(TERMS, progress(1, 9, "a"), market) == market.offers[0], "not worth a move"


def test_a_job_moves_when_the_lower_price_pays_for_the_move() -> None:
    near = SpotMarket((SpotOffer("a", 1_000_000, OLD), SpotOffer("b", 990_000, OLD)), OLD, 990_000)
    far = SpotMarket((SpotOffer("a", 1_000_000, OLD), SpotOffer("b", 500_000, OLD)), OLD, 500_000)
    assert best_offer(TERMS, progress(1, 9, "a"), near) == near.offers[0]
    assert best_offer(TERMS, progress(1, 9, "a"), far) == far.offers[1]


def test_spot_that_costs_more_than_on_demand_is_not_used() -> None:
    dear = SpotMarket((SpotOffer("a", 3_000_000, OLD),), OLD, 3_000_000)
    assert best_offer(TERMS, progress(0, 10), dear) is None
    assert expected_cost(TERMS, progress(0, 10), dear) != "a"


def test_a_deadline_that_cannot_be_met_is_refused_with_the_hours() -> None:
    with pytest.raises(UserError, match="14 h of work"):
        replace(TERMS, work_ms=14 * HOUR_MS)


@pytest.mark.parametrize("field", ["work_ms", "tick_ms", "on_demand_micro_usd"])
def test_no_work_no_tick_and_no_price_are_refused_each(field: str) -> None:
    with pytest.raises(UserError, match="above 0"):
        replace(TERMS, **{field: 0})


@pytest.mark.parametrize("rework_min", [0, 30])
@pytest.mark.parametrize("change_over_min", first_always(1, [12, 1, 10, 24]))
def test_ours_meets_the_deadline_in_an_adversarial_market(
    change_over_min: int, rework_min: int
) -> None:
    """Spot is available while unused and disappears when used; later its availability is random."""
    for seed in range(60):
        chance = random.Random(seed)
        terms = replace(
            TERMS,
            change_over_ms=change_over_min * MINUTE_MS,
            deadline_ms=11 * HOUR_MS + chance.randrange(0, 4 * HOUR_MS),
            rework_ms=rework_min * MINUTE_MS,
        )
        spiteful = chance.random() < 0.5
        assert finishes(terms, chance, spiteful), f"seed {seed}"


def finishes(terms: DeadlineTerms, chance: random.Random, spiteful: bool) -> bool:
    book = AvailabilityTracker()
    remaining_ms, pending_ms, place = terms.work_ms, 0, WAIT
    for tick in range(terms.ticks):
        up = (place != "a" or tick % 3 == 0) if spiteful else chance.random() < 0.6
        availability = book.observe(up, terms.tick_ms)
        market = SpotMarket(
            (SpotOffer("a", 1_000_000, availability),) if up else (), availability, 1_000_000
        )
        if place == "a" and not up:
            remaining_ms = min(terms.work_ms, remaining_ms + terms.rework_ms)
            place, pending_ms = WAIT, 0
        now = DeadlineProgress(tick * terms.tick_ms, remaining_ms, pending_ms, place)
        chosen = expected_cost(terms, now, market)
        assert can_wait_one_tick(terms, now, chosen)
        if chosen == WAIT:
            place, pending_ms = WAIT, 0
            continue
        if chosen != place:
            place, pending_ms = chosen, terms.change_over_ms
        remaining_ms -= max(0, terms.tick_ms - pending_ms)
        pending_ms = max(0, pending_ms - terms.tick_ms)
        if remaining_ms <= 0:
            return True
    return False


def test_ours_decides_the_same_in_the_same_state() -> None:
    now = progress(2.5, 8.3, ON_DEMAND)
    assert {expected_cost(TERMS, now, SPOT) for _ in range(3)} == {expected_cost(TERMS, now, SPOT)}


# -- what is learned -------------------------------------------------------------------------------


def test_a_pool_whose_intervals_end_often_gets_a_higher_rate() -> None:
    fickle, steady = AvailabilityTracker(), AvailabilityTracker()
    for tick in range(600):
        shaky = fickle.observe(tick % 2 == 0, TICK_MS)
        calm = steady.observe(True, TICK_MS)
    assert shaky.up_step >= HIGHEST_STEP - 1
    assert LOWEST_STEP <= calm.up_step < 0
    assert calm.age == AGES - 1 and shaky.age == 0


def test_old_observations_decay() -> None:
    book = AvailabilityTracker()
    for tick in range(600):
        book.observe(tick % 2 == 0, TICK_MS)
    for _ in range(6 * 24 * 40):
        late = book.observe(True, TICK_MS)
    assert late.up_step < 0


def test_a_long_interval_is_expected_to_continue() -> None:
    lives = [expected_life_ms(age, 0) for age in range(AGES)]
    assert lives == sorted(lives) and lives[0] > HOUR_MS
    assert expected_life_ms(3, 2) < expected_life_ms(3, 0) < expected_life_ms(3, -2)


def test_the_probabilities_of_the_next_state_sum_to_one() -> None:
    for step_ms in (MINUTE_MS, TICK_MS, HOUR_MS):
        moves = transition_probabilities(TableKey(step_ms, 10, 10, 0, 16, 3, -2))
        assert moves.min() >= 0
        assert moves.sum(axis=1).tolist() == pytest.approx([1.0] * 2 * AGES)

"""A position in the samples is valid for any number of ranks."""

from __future__ import annotations

from itertools import islice
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.sdk import CheckpointProblem
from bursar.sdk.adapters.elastic import SampleOrder, world

SAMPLES, STEP = 103, 10


def step_of(state: dict[str, int], ranks: int) -> list[int]:
    """The samples of the next step, over all ranks."""
    samples: list[int] = []
    for rank in range(ranks):
        order = SampleOrder(SAMPLES, seed=5)
        order.load_state_dict(state)
        with mock.patch.dict("os.environ", RANK=str(rank), WORLD_SIZE=str(ranks)):
            samples += next(order.upcoming(STEP))
    return samples


@given(sizes=st.lists(st.integers(1, STEP), min_size=25, max_size=25))
def test_each_sample_is_used_once_for_any_number_of_ranks(sizes: list[int]) -> None:
    """The number of ranks changes before every step; steps are the same as with one rank."""
    alone, order = SampleOrder(SAMPLES, seed=5), SampleOrder(SAMPLES, seed=5)
    seen: dict[int, list[int]] = {}
    for ranks in sizes:
        step = step_of(order.state_dict(), ranks)
        assert sorted(step) == sorted(step_of(alone.state_dict(), 1))
        seen.setdefault(order.epoch, []).extend(step)
        order.advance(STEP)
        alone.advance(STEP)
    for samples in seen.values():
        assert len(set(samples)) == len(samples)
    assert [len(samples) for samples in seen.values()] == [100, 100, 50]


def test_upcoming_changes_nothing() -> None:
    order = SampleOrder(SAMPLES, seed=5)
    ahead = list(islice(order.upcoming(STEP), 4))
    assert order.state_dict()["done"] == 0
    order.advance(STEP)
    assert next(order.upcoming(STEP)) == ahead[1]


def test_another_epoch_has_another_order() -> None:
    order = SampleOrder(SAMPLES)
    first = next(order.upcoming(STEP))
    for _ in range(10):
        order.advance(STEP)
    assert order.epoch == 1
    assert next(order.upcoming(STEP)) != first


def test_other_samples_are_rejected() -> None:
    with pytest.raises(CheckpointProblem, match=r"103 samples with seed 0.*has 50"):
        SampleOrder(50).load_state_dict(SampleOrder(SAMPLES).state_dict())


def test_more_ranks_than_samples_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "11")
    with pytest.raises(CheckpointProblem, match="cannot be shared by 11 ranks"):
        next(SampleOrder(SAMPLES).upcoming(STEP))


def test_the_default_is_rank_0_of_1(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    assert world() == (0, 1, 0)

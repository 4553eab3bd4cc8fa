"""Rare garbage collection can be nested; the settings are restored when the last block ends."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from bursar.api.server import COLLECT_AFTER
from bursar.gc_tuning import YOUNG, rare_gc

USUAL = (700, 11, 12)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_collection_is_rare_within_the_block_and_restored_after_it() -> None:
    with rare_gc():
        assert gc.get_threshold() == (YOUNG, 11, 12) and gc.isenabled()
    assert gc.get_threshold() == USUAL


def test_the_block_that_ends_first_does_not_affect_the_other() -> None:
    first, second = rare_gc(), rare_gc()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (YOUNG, 11, 12)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == USUAL


def test_settings_are_restored_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), rare_gc():
        _ = 1 // 0
    assert gc.get_threshold() == USUAL


def test_a_server_collects_as_rarely() -> None:
    assert COLLECT_AFTER[0] == YOUNG

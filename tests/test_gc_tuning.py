"""However many count at the same time, the collector is as it was when the last one is done."""

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


def test_it_looks_seldom_and_then_as_before() -> None:
    with rare_gc():
        assert gc.get_threshold() == (YOUNG, 11, 12) and gc.isenabled()
    assert gc.get_threshold() == USUAL


def test_whoever_is_done_first_does_not_disturb_the_other() -> None:
    first, second = rare_gc(), rare_gc()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (YOUNG, 11, 12)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == USUAL


def test_it_is_as_before_after_a_failure_too() -> None:
    with pytest.raises(ZeroDivisionError), rare_gc():
        _ = 1 // 0
    assert gc.get_threshold() == USUAL


def test_a_server_has_it_look_as_rarely() -> None:
    assert COLLECT_AFTER[0] == YOUNG

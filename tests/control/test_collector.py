"""However many count at the same time, the collector is as it was when the last one is done."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from bursar.control.collector import YOUNG, seldom_collecting, undisturbed

USUAL = (700, 11, 12)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_it_looks_seldom_and_then_as_before() -> None:
    with seldom_collecting():
        assert gc.get_threshold() == (YOUNG, 11, 12) and gc.isenabled()
    assert gc.get_threshold() == USUAL


def test_whoever_is_done_first_does_not_disturb_the_other() -> None:
    first, second = seldom_collecting(), seldom_collecting()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (YOUNG, 11, 12)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == USUAL


def test_it_is_as_before_after_a_failure_too() -> None:
    def fail(amount: int) -> int:
        assert gc.get_threshold()[0] == YOUNG
        return amount // 0

    with pytest.raises(ZeroDivisionError):
        undisturbed(fail, 1)
    assert gc.get_threshold() == USUAL


def test_the_answer_is_the_questions() -> None:
    assert undisturbed(divmod, 7, 2) == (3, 1)

"""Which of many alike parameters every run tries, and which only ``make test-full``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

Parameter = Any
"""Whatever ``pytest.mark.parametrize`` and ``pytest.fixture`` take."""


def first_always(count: int, parameters: Iterable[Parameter]) -> list[Parameter]:
    """The first so many as they are, the others marked ``thorough``."""
    return [one if number < count else _thorough(one) for number, one in enumerate(parameters)]


def _thorough(one: Parameter) -> Parameter:
    values = one if isinstance(one, tuple) else (one,)
    return pytest.param(*values, marks=pytest.mark.thorough)

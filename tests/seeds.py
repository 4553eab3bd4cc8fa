"""Which of many similar parameters every run tests, and which only ``make test-full`` does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

Parameter = Any
"""Parameters for ``pytest.mark.parametrize`` and ``pytest.fixture``."""


def first_always(count: int, parameters: Iterable[Parameter]) -> list[Parameter]:
    """Leaves the first parameters unmarked and marks the others ``thorough``."""
    return [one if number < count else _thorough(one) for number, one in enumerate(parameters)]


def _thorough(one: Parameter) -> Parameter:
    values = one if isinstance(one, tuple) else (one,)
    return pytest.param(*values, marks=pytest.mark.thorough)

"""Three types of error: the user's, the outside world's, ours. A job that has to wait is none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


class UserError(Exception):
    """An error that the user can fix: what is wrong, and what to write instead."""

    def __init__(self, problem: str, *, fix: str, code: str) -> None:
        super().__init__(f"{problem} {fix}")
        self.problem = problem
        self.fix = fix
        self.code = code

    def __reduce__(self) -> tuple[Callable[[str], UserError], tuple[str], dict[str, Any]]:
        """How pickle copies it to another process, with the attributes of a subclass."""
        return partial(type(self), fix=self.fix, code=self.code), (self.problem,), self.__dict__


class EngineFault(Exception):
    """The outside world failed; the operation is retried later."""

    def __init__(self, problem: str, *, retry_after_seconds: float) -> None:
        super().__init__(problem)
        self.retry_after_seconds = retry_after_seconds


class BrokenInvariant(Exception):
    """A bug of ours: stop the cycle, write the snapshot, notify the operator."""

"""Three kinds of error, three fates. "Does not fit" is none of them: it is a hold, an ordinary answer."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right. Says what is wrong and what to write instead."""

    def __init__(self, problem: str, *, fix: str, code: str) -> None:
        super().__init__(f"{problem} {fix}")
        self.problem = problem
        self.fix = fix
        self.code = code


class EngineFault(Exception):
    """The outside world failed. It becomes an event and is tried again after a while."""

    def __init__(self, problem: str, *, retry_after_seconds: float) -> None:
        super().__init__(problem)
        self.retry_after_seconds = retry_after_seconds


class BrokenInvariant(Exception):
    """We are wrong. Stop the cycle, keep the snapshot, tell the operator."""

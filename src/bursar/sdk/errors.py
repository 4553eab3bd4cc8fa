"""Errors of checkpoints: those that the user can fix, and torn checkpoints."""

from __future__ import annotations


class CheckpointProblem(Exception):
    """An error that the user can fix; names the problem and the fix."""

    def __init__(self, problem: str, *, fix: str) -> None:
        super().__init__(f"{problem}; {fix}")
        self.problem = problem
        self.fix = fix


class StaleAttempt(CheckpointProblem):
    """A later attempt of this job has saved; this one must not save over it."""


class TornCheckpoint(Exception):
    """A checkpoint that is incomplete or damaged. It is skipped for an older one."""

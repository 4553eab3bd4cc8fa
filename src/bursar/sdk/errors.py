"""What can go wrong with checkpoints: what a user can put right, and what is skipped."""

from __future__ import annotations


class CheckpointProblem(Exception):
    """Something the user can put right. Says what is wrong and what to do instead."""

    def __init__(self, problem: str, *, fix: str) -> None:
        super().__init__(f"{problem}; {fix}")
        self.problem = problem
        self.fix = fix


class StaleAttempt(CheckpointProblem):
    """A later attempt of this job has saved: what this one would save must not become the newest."""


class TornCheckpoint(Exception):
    """A checkpoint that is not what was saved. It is never resumed from; an older one is."""

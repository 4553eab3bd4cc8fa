"""One fault found by a check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken rule, the job, node or tenant that broke it, and a sentence with the numbers."""

    rule: str
    subject: str
    text: str

    def __str__(self) -> str:
        return self.text

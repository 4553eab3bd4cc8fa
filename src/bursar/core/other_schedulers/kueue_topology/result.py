"""What Kueue's placement answers: how many tasks and leaders each leaf takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueDomainCount:
    """A leaf's part of a gang. ``tasks`` may be 0 where only the leader runs."""

    leaf: str
    tasks: int
    leaders: int = 0


KueueAssignment = tuple[KueueDomainCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """An assignment changed in part: the whole of it, and the part that is new."""

    assignment: KueueAssignment
    added: KueueAssignment

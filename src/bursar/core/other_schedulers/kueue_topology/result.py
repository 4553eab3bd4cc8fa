"""The result of Kueue's placement: tasks and leaders per leaf."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueDomainCount:
    """A leaf's share of a gang. ``tasks`` is 0 where only the leader runs."""

    leaf: str
    tasks: int
    leaders: int = 0


KueueAssignment = tuple[KueueDomainCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A changed assignment, and the tasks that were added to it."""

    assignment: KueueAssignment
    added: KueueAssignment

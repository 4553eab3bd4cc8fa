"""What is known of a job beside what the scheduler looks at: for reports, which events alone cannot name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLabel:
    """Whose it is and what he calls it."""

    owner: str
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

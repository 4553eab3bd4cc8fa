"""Owner, name and labels of a job, for reports; the scheduler does not use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLabel:
    """Owner, name and labels of a job."""

    owner: str
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

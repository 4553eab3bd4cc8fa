"""The house rules of a platform team: what no job may do, whoever can afford it.

A rule begins in ``dry-run``: it says what it would forbid and forbids nothing. ``enforce`` makes it hold
for jobs submitted from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RuleMode(StrEnum):
    """Whether a rule only tells, or also forbids."""

    DRY_RUN = "dry-run"
    ENFORCE = "enforce"


PLATFORM = "the platform team"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotMandatory:
    """Jobs of other priority classes than these do not buy on-demand: owned, reserved or spot it is."""

    mode: RuleMode = RuleMode.DRY_RUN
    owner: str = PLATFORM
    exempt_priorities: tuple[str, ...] = ("high", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCeiling:
    """No job costs more in an hour."""

    micro_usd_per_hour: int
    mode: RuleMode = RuleMode.DRY_RUN
    owner: str = PLATFORM
    exempt_priorities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRestriction:
    """Jobs with a label, written ``key=value``, do not run on these GPU models."""

    models: tuple[str, ...]
    label: str
    mode: RuleMode = RuleMode.DRY_RUN
    owner: str = PLATFORM


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleNodes:
    """A node that is paid by the hour and has stood empty for so long should be shut down.

    It can only tell: no engine of ours shuts nodes down yet.
    """

    after_ms: int
    owner: str = PLATFORM


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSize:
    """A hint for jobs that ask for far more time than jobs alike have taken: backfill passes them by.

    At least ``runs`` of them must have ended, and the longest must have taken less than one part in
    ``times`` of what is asked for.
    """

    runs: int = 3
    times: int = 4
    owner: str = PLATFORM


@dataclass(frozen=True, slots=True, kw_only=True)
class Governance:
    """All the house rules. What is not written is not a rule."""

    spot_mandatory: SpotMandatory | None = None
    rate_ceiling: RateCeiling | None = None
    restricted_models: tuple[ModelRestriction, ...] = ()
    idle_nodes: IdleNodes | None = None
    right_size: RightSize | None = None

    @property
    def has_admission_rules(self) -> bool:
        """Whether any rule applies to submitted jobs."""
        return bool(self.spot_mandatory or self.rate_ceiling or self.restricted_models)

"""Governance rules of a platform team: limits that apply regardless of budget and quota.

A rule starts in ``dry-run``: it reports what it would reject. ``enforce`` applies it to jobs submitted
from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RuleMode(StrEnum):
    """Whether a rule only reports, or also rejects."""

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
    """Reports nodes paid by the hour that have been idle for ``after_ms``.

    It only reports: no engine shuts nodes down yet.
    """

    after_ms: int
    owner: str = PLATFORM


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSize:
    """A hint for jobs that request far more time than similar jobs took, which hinders backfill.

    At least ``runs`` similar jobs must have ended, and the longest must have taken less than 1/``times`` of
    the requested time.
    """

    runs: int = 3
    times: int = 4
    owner: str = PLATFORM


@dataclass(frozen=True, slots=True, kw_only=True)
class Governance:
    """All governance rules of a fleet."""

    spot_mandatory: SpotMandatory | None = None
    rate_ceiling: RateCeiling | None = None
    restricted_models: tuple[ModelRestriction, ...] = ()
    idle_nodes: IdleNodes | None = None
    right_size: RightSize | None = None

    @property
    def has_admission_rules(self) -> bool:
        """Whether any rule applies to submitted jobs."""
        return bool(self.spot_mandatory or self.rate_ceiling or self.restricted_models)

"""The axes of a report: ``team,gpu`` groups by team, then by GPU model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bursar.accounting.ledger.books import market_of, model_of
from bursar.accounting.reports.payer import PayerTree
from bursar.accounting.reports.statement import PLATFORM
from bursar.model.calendar import date_of
from bursar.model.errors import UserError
from bursar.model.jobs.job_labels import JobLabel
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import DAY_MS

MAX_AXES = 3
UNKNOWN = "(unknown)"
"""Owner of a job that is no longer in the store."""
OLDER = "(older, stored by queue only)"
"""Costs so old that they are stored by queue and pool only."""
NO_LABEL = "(no such label)"


class Dimension(StrEnum):
    """What the rows of a report are grouped by."""

    TEAM = "team"
    PROJECT = "project"
    QUEUE = "queue"
    USER = "user"
    LABEL = "label"
    GPU = "gpu"
    MARKET = "market"
    POOL = "pool"
    JOB = "job"
    DAY = "day"


POOL_DIMENSIONS = frozenset({Dimension.GPU, Dimension.MARKET, Dimension.POOL, Dimension.DAY})
"""Dimensions that unused capacity has too; along all others it belongs to the platform."""
JOB_DIMENSIONS = frozenset({Dimension.USER, Dimension.LABEL, Dimension.JOB})
"""Dimensions that need single jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBy:
    """One axis; ``label`` is the key if the dimension is a label."""

    dimension: Dimension
    label: str = ""

    def __str__(self) -> str:
        return f"label:{self.label}" if self.label else self.dimension.value


UNKNOWN_JOB = JobLabel(owner=UNKNOWN)


def read_axes(text: str) -> tuple[GroupBy, ...]:
    """Parses ``team``, ``label:project`` or ``team,gpu``."""
    axes = tuple(_read_axis(part.strip()) for part in text.split(","))
    if len(axes) > MAX_AXES or len(set(axes)) < len(axes):
        raise UserError(
            f"by is {text[:60]!r}: {len(axes)} dimensions, {len(set(axes))} of them different.",
            fix=f"Name 1 to {MAX_AXES} different ones, for example team,gpu.",
            code="unknown-dimension",
        )
    return axes


def _read_axis(text: str) -> GroupBy:
    name, _, label = text.partition(":")
    known = {one.value: one for one in Dimension}
    if name not in known or bool(label) != (known[name] is Dimension.LABEL):
        names = [one for one in known if one != Dimension.LABEL]
        raise UserError(
            f"by is {text[:60]!r}, which is not a dimension of a report.",
            fix=f"Write {', '.join(names)} or label:KEY, or several separated by commas.",
            code="unknown-dimension",
        )
    return GroupBy(dimension=known[name], label=label)


class Naming:
    """The team and project of a queue, and the owner and labels of a job.

    With one root the teams are the tenants below it; with several roots the roots are the teams. A project is
    the tenant below its team. Where the tree ends earlier, the last tenant counts.
    """

    def __init__(
        self, tenants: Iterable[Tenant], tags: Mapping[str, JobLabel] | None = None
    ) -> None:
        known = tuple(tenants)
        names = {one.name for one in known}
        roots = [one for one in known if one.parent not in names]
        self._tree = PayerTree(known)
        self._team_level = 1 if len(roots) == 1 and not roots[0].is_queue else 0
        self._tags = tags or {}
        self._paths: dict[str, tuple[str, ...]] = {}

    def teams(self, queues: Iterable[str]) -> tuple[str, ...]:
        """The teams of these queues."""
        return tuple(sorted({self.team_of(queue) for queue in queues}))

    def team_of(self, queue: str) -> str:
        return self._level(queue, self._team_level)

    def project_of(self, queue: str) -> str:
        return self._level(queue, self._team_level + 1)

    def _level(self, queue: str, level: int) -> str:
        path = self._paths.get(queue)
        if path is None:
            path = tuple(reversed(tuple(self._tree.upwards(queue)))) or (queue,)
            self._paths[queue] = path
        return path[min(level, len(path) - 1)]

    def tag_of(self, job_id: str) -> JobLabel:
        return self._tags.get(job_id, UNKNOWN_JOB)

    def pool_key(self, axis: GroupBy, day_ms: int, pool: str, flavor: str) -> str:
        """The key of a pool's cost on an axis; on axes of jobs and tenants it is the platform."""
        match axis.dimension:
            case Dimension.GPU:
                return model_of(flavor)
            case Dimension.MARKET:
                return market_of(flavor)
            case Dimension.POOL:
                return pool
            case Dimension.DAY:
                return write_day(day_ms)
            case _:
                return PLATFORM

    def job_key(self, axis: GroupBy, queue: str, job_id: str) -> str:
        """The key of a job's cost on an axis of jobs or tenants."""
        match axis.dimension:
            case Dimension.TEAM:
                return self.team_of(queue)
            case Dimension.PROJECT:
                return self.project_of(queue)
            case Dimension.QUEUE:
                return queue
            case _ if not job_id:
                return OLDER
            case Dimension.USER:
                return self.tag_of(job_id).owner
            case Dimension.LABEL:
                return self.tag_of(job_id).labels.get(axis.label) or NO_LABEL
            case _:
                return job_id

    def job_keys(self, axis: GroupBy, job_ids: Iterable[str]) -> list[str]:
        """The keys of many jobs on an axis that needs single jobs."""
        get = self._tags.get
        if axis.dimension is Dimension.USER:
            return [get(job_id, UNKNOWN_JOB).owner if job_id else OLDER for job_id in job_ids]
        return [self.job_key(axis, "", job_id) for job_id in job_ids]


def write_day(day_ms: int) -> str:
    """Formats a day as ``2026-11-16``."""
    year, month, day = date_of(day_ms // DAY_MS)
    return f"{year:04}-{month:02}-{day:02}"

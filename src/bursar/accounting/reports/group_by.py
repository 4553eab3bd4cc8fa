"""By what a report is broken down: who, on what, when. ``team,gpu`` is two axes, the first one the wider."""

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

MOST_AXES = 3
UNKNOWN = "(unknown)"
"""A job of which the store knows nothing any more."""
OLDER = "(not kept by job)"
"""What is so old that only queues and pools are kept of it."""
NO_LABEL = "(no such label)"


class Dimension(StrEnum):
    """What a row of a report is about."""

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


OF_PLACES = frozenset({Dimension.GPU, Dimension.MARKET, Dimension.POOL, Dimension.DAY})
"""What is known of capacity that nobody used; along all others that is the platform's."""
OF_JOBS = frozenset({Dimension.USER, Dimension.LABEL, Dimension.JOB})
"""What only the jobs themselves know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBy:
    """One dimension; ``label`` is the key of a label where labels are it."""

    dimension: Dimension
    label: str = ""

    def __str__(self) -> str:
        return f"label:{self.label}" if self.label else self.dimension.value


NO_TAG = JobLabel(owner=UNKNOWN)


def read_axes(text: str) -> tuple[GroupBy, ...]:
    """``team``, ``label:project``, ``team,gpu``."""
    axes = tuple(_read_axis(part.strip()) for part in text.split(","))
    if len(axes) > MOST_AXES or len(set(axes)) < len(axes):
        raise UserError(
            f"by is {text[:60]!r}: {len(axes)} dimensions, {len(set(axes))} of them different.",
            fix=f"Name 1 to {MOST_AXES} different ones, for example team,gpu.",
            code="unknown-dimension",
        )
    return axes


def _read_axis(text: str) -> GroupBy:
    name, _, label = text.partition(":")
    known = {one.value: one for one in Dimension}
    if name not in known or bool(label) != (known[name] is Dimension.LABEL):
        names = [one for one in known if one != Dimension.LABEL]
        raise UserError(
            f"by is {text[:60]!r}, which nothing can be told by.",
            fix=f"Write {', '.join(names)} or label:KEY, or several with commas between them.",
            code="unknown-dimension",
        )
    return GroupBy(dimension=known[name], label=label)


class Naming:
    """Whose a queue is, and what is known of a job: what turns rows of the books into names.

    Of one organisation with teams below it, they are the teams; of several roots, the roots are. A
    project is the tenant below its team. Where the tree ends earlier, the last tenant is meant.
    """

    def __init__(
        self, tenants: Iterable[Tenant], tags: Mapping[str, JobLabel] | None = None
    ) -> None:
        known = tuple(tenants)
        names = {one.name for one in known}
        roots = [one for one in known if one.parent not in names]
        self._tree = PayerTree(known)
        self._above = 1 if len(roots) == 1 and not roots[0].is_queue else 0
        self._tags = tags or {}
        self._paths: dict[str, tuple[str, ...]] = {}

    def teams(self, queues: Iterable[str]) -> tuple[str, ...]:
        """The teams of these queues."""
        return tuple(sorted({self.team_of(queue) for queue in queues}))

    def team_of(self, queue: str) -> str:
        return self._level(queue, self._above)

    def project_of(self, queue: str) -> str:
        return self._level(queue, self._above + 1)

    def _level(self, queue: str, level: int) -> str:
        path = self._paths.get(queue)
        if path is None:
            path = tuple(reversed(tuple(self._tree.upwards(queue)))) or (queue,)
            self._paths[queue] = path
        return path[min(level, len(path) - 1)]

    def tag_of(self, job_id: str) -> JobLabel:
        return self._tags.get(job_id, NO_TAG)

    def name_of_place(self, axis: GroupBy, day_ms: int, pool: str, flavor: str) -> str:
        """Along an axis that says where or when; else it is nobody's but the platform's."""
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

    def name_of_job(self, axis: GroupBy, queue: str, job_id: str) -> str:
        """Along an axis that says who."""
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

    def names_of_jobs(self, axis: GroupBy, job_ids: Iterable[str]) -> list[str]:
        """Of many jobs, along an axis that only jobs themselves know."""
        get = self._tags.get
        if axis.dimension is Dimension.USER:
            return [get(job_id, NO_TAG).owner if job_id else OLDER for job_id in job_ids]
        return [self.name_of_job(axis, "", job_id) for job_id in job_ids]


def write_day(day_ms: int) -> str:
    """``2026-11-16``."""
    year, month, day = date_of(day_ms // DAY_MS)
    return f"{year:04}-{month:02}-{day:02}"

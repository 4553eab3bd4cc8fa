"""The study of spot and deadlines, put together for whoever asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bursar.simulate.measures.plain import Plain
    from bursar.simulate.spot_study import SpotOutcome
    from bursar.simulate.spot_study.crew import SpotWatcher

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotOptions:
    """What a user says about the study. No rules means all, no parts the traces."""

    traces: str
    job_hours: float
    deadline_hours: float
    change_over_hours: float
    rules: Sequence[str] = ()
    parts: Sequence[str] = ()
    limit: int | None = None


def study_spot(options: SpotOptions, watcher: SpotWatcher) -> SpotOutcome:
    """Run it."""
    from bursar.core.deadline import POLICIES
    from bursar.simulate.spot_study import PARTS, JobSize, SpotRequest, run_spot_study

    parts = PARTS if ALL in options.parts else options.parts or PARTS[:1]
    return run_spot_study(
        SpotRequest(
            traces=Path(options.traces),
            size=JobSize(
                job_hours=options.job_hours,
                deadline_hours=options.deadline_hours,
                change_over_hours=options.change_over_hours,
            ),
            rules=tuple(options.rules) or tuple(POLICIES),
            parts=tuple(parts),
            limit=options.limit,
        ),
        watcher,
    )


def tell_spot(outcome: SpotOutcome) -> str:
    """The study as text."""
    from bursar.simulate.spot_study.text import tell_spot as tell

    return tell(outcome)


def spot_json(outcome: SpotOutcome) -> dict[str, Plain]:
    """The study for programs."""
    from bursar.simulate.spot_study.text import spot_json as as_json

    return as_json(outcome)

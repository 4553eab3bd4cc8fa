"""The study of spot and deadlines on a user's own history, put together for the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bursar.simulate.parallel_tasks import Watch
    from bursar.simulate.spot_study import SpotOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotOptions:
    """Options of the study. No rules means all; a price of 0 means not specified."""

    histories: Sequence[str]
    job_hours: float
    deadline_hours: float
    change_over_hours: float
    nodes: int = 1
    on_demand_usd: float = 0.0
    spot_usd: float = 0.0
    rules: Sequence[str] = ()
    starts: int | None = None


def study_spot(options: SpotOptions, watch: Watch) -> SpotOutcome:
    """Run the study."""
    from bursar.core.deadline import POLICIES
    from bursar.simulate.spot_study import HistoryStudy, JobSize, run_history_study

    return run_history_study(
        HistoryStudy(
            histories=tuple(options.histories),
            size=JobSize(
                job_hours=options.job_hours,
                deadline_hours=options.deadline_hours,
                change_over_hours=options.change_over_hours,
            ),
            rules=tuple(options.rules) or tuple(POLICIES),
            starts=options.starts,
            nodes=options.nodes,
            on_demand_micro_usd=round(options.on_demand_usd * 1_000_000),
            spot_micro_usd=round(options.spot_usd * 1_000_000),
        ),
        watch,
    )


def spot_text(outcome: SpotOutcome) -> str:
    """The study as text."""
    from bursar.simulate.spot_study.text import spot_text as text_of

    return text_of(outcome)


def spot_json(outcome: SpotOutcome) -> dict[str, Any]:
    """The study as JSON."""
    from bursar.simulate.spot_study.text import spot_json as as_json

    return as_json(outcome)

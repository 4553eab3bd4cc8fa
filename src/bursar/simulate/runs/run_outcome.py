"""What came of a run: its numbers, its curves, and everything that had to be said about its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bursar.simulate.metrics import Series, Summary
from bursar.simulate.workload.trace import BadRow
from bursar.simulate.workload.trace_scenario import LeftOut

SHOWN = 5
"""So many bad rows and jobs left out are told one by one; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """One run. ``complete`` is false when it was stopped before its end; ``jobs_over`` says how far."""

    summary: Summary
    series: Series
    source: str
    policy: str
    fleet: str
    gpus: int
    complete: bool
    jobs_over: int
    jobs_in_all: int | None
    bad_rows: tuple[BadRow, ...] = ()
    bad_row_count: int = 0
    left_out: tuple[LeftOut, ...] = ()
    left_out_count: int = 0
    notes: tuple[str, ...] = ()

    def remarks(self) -> tuple[str, ...]:
        """What is not in the numbers, one sentence a line; nothing when all is."""
        said = []
        if self.jobs_in_all == 0:
            said.append("the trace has no jobs")
        if not self.complete:
            of = "" if self.jobs_in_all is None else f" of {self.jobs_in_all:,}"
            said.append(f"stopped early: the numbers cover {self.jobs_over:,}{of} jobs")
        if self.bad_row_count:
            said.append(
                f"{self.bad_row_count:,} rows of the trace made no sense and are not in it:"
            )
            said += _told(self.bad_rows, self.bad_row_count)
        if self.left_out_count:
            said.append(
                f"{self.left_out_count:,} jobs could never run on this fleet and are left out:"
            )
            said += _told(self.left_out, self.left_out_count)
        return (*said, *self.notes)

    def as_json(self) -> dict[str, Any]:
        """Nothing but what JSON knows."""
        return {
            "source": self.source,
            "policy": self.policy,
            "fleet": self.fleet,
            "gpus": self.gpus,
            "complete": self.complete,
            "jobs_over": self.jobs_over,
            "jobs_in_all": self.jobs_in_all,
            "bad_rows": {"count": self.bad_row_count, "first": [str(one) for one in self.bad_rows]},
            "left_out": {
                "count": self.left_out_count,
                "first": [str(one) for one in self.left_out],
            },
            "notes": list(self.notes),
            "summary": self.summary.as_json(),
        }


def _told(first: tuple[BadRow, ...] | tuple[LeftOut, ...], count: int) -> list[str]:
    more = [f"  and {count - len(first):,} more"] if count > len(first) else []
    return [*(f"  {one}" for one in first), *more]

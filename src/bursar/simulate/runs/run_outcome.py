"""The outcome of a run: its summary, curves and remarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bursar.model.units import counted
from bursar.simulate.metrics import Series, Summary
from bursar.simulate.workload.trace import BadRow
from bursar.simulate.workload.trace_scenario import LeftOut

SHOWN = 5
"""How many bad rows and omitted jobs are listed; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """One run. ``complete`` is false when it was stopped early, after ``jobs_over`` jobs."""

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
        """What the metrics do not include, one sentence a line."""
        remarks = []
        if self.jobs_in_all == 0:
            remarks.append("the trace has no jobs")
        if not self.complete:
            of = "" if self.jobs_in_all is None else f" of {self.jobs_in_all:,}"
            remarks.append(f"stopped early: the numbers cover {self.jobs_over:,}{of} jobs")
        if self.bad_row_count:
            remarks.append(f"{counted(self.bad_row_count, 'invalid row')} of the trace skipped:")
            remarks += _listed(self.bad_rows, self.bad_row_count)
        if self.left_out_count:
            jobs = counted(self.left_out_count, "job")
            they = "it" if self.left_out_count == 1 else "they"
            remarks.append(f"{jobs} left out: {they} could never run on this fleet")
            remarks += _listed(self.left_out, self.left_out_count)
        return (*remarks, *self.notes)

    def as_json(self) -> dict[str, Any]:
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


def _listed(first: tuple[BadRow, ...] | tuple[LeftOut, ...], count: int) -> list[str]:
    more = [f"  and {count - len(first):,} more"] if count > len(first) else []
    return [*(f"  {one}" for one in first), *more]

"""How long a job will run: as its user says, or as jobs like it have."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.jobs.job import JobSpec
from bursar.model.units import write_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """With even odds and with nine in ten, and where that comes from."""

    p50_ms: int
    p90_ms: int
    basis: str
    is_known: bool = False

    def at_most(self, limit_ms: int | None) -> RunTime:
        """A job that reaches its limit is stopped there."""
        if limit_ms is None or self.p90_ms <= limit_ms:
            return self
        return RunTime(
            p50_ms=min(self.p50_ms, limit_ms),
            p90_ms=limit_ms,
            basis=f"{self.basis}, at most {write_duration(limit_ms)}",
            is_known=self.is_known,
        )


def exactly(run_ms: int) -> RunTime:
    """A run time that is known."""
    return RunTime(
        p50_ms=run_ms, p90_ms=run_ms, basis=f"runs {write_duration(run_ms)}", is_known=True
    )


def told(spec: JobSpec) -> RunTime | None:
    """What the user wrote: what he expects, and for nine in ten his limit or half as long again."""
    expected_ms, limit_ms = spec.expected_run_ms, spec.max_run_ms
    if expected_ms is None and limit_ms is None:
        return None
    likely_ms = expected_ms or limit_ms or 0
    if expected_ms is None:
        return RunTime(
            p50_ms=likely_ms,
            p90_ms=likely_ms,
            basis=f"may run {write_duration(likely_ms)}; what is expected is not said",
        )
    longest_ms = likely_ms + likely_ms // 2 if limit_ms is None else limit_ms
    return RunTime(
        p50_ms=min(likely_ms, longest_ms),
        p90_ms=longest_ms,
        basis=f"expected to run {write_duration(likely_ms)}",
    )

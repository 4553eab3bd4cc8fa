"""Expected run time of a job, from its user's figures."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.jobs.job import JobSpec
from bursar.model.units import write_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """Median and P90 of a run time, and what they are based on."""

    p50_ms: int
    p90_ms: int
    basis: str

    def at_most(self, limit_ms: int | None) -> RunTime:
        """The run time of a job that is stopped at a limit."""
        if limit_ms is None or self.p90_ms <= limit_ms:
            return self
        return RunTime(
            p50_ms=min(self.p50_ms, limit_ms),
            p90_ms=limit_ms,
            basis=f"{self.basis}, at most {write_duration(limit_ms)}",
        )


def user_estimate(spec: JobSpec) -> RunTime | None:
    """The user's expected run time; P90 is the job's limit, or half as long again."""
    expected_ms, limit_ms = spec.expected_run_ms, spec.max_run_ms
    if expected_ms is None and limit_ms is None:
        return None
    likely_ms = expected_ms or limit_ms or 0
    if expected_ms is None:
        return RunTime(
            p50_ms=likely_ms,
            p90_ms=likely_ms,
            basis=f"may run {write_duration(likely_ms)}; no expected run time is given",
        )
    longest_ms = likely_ms + likely_ms // 2 if limit_ms is None else limit_ms
    return RunTime(
        p50_ms=min(likely_ms, longest_ms),
        p90_ms=longest_ms,
        basis=f"expected to run {write_duration(likely_ms)}",
    )

"""Counts of interruptions, lost work, deadlines and SLOs."""

from __future__ import annotations

from bursar.model.event import AttemptFailed, AttemptPreempted, AttemptSucceeded, NodeLost
from bursar.model.units import HOUR_MS
from bursar.simulate.metrics.live_jobs import LiveJob
from bursar.simulate.metrics.summary import Losses, Promises


class OutcomeCounts:
    """Sums over attempts and jobs that have ended; money in micro-dollars an hour times milliseconds."""

    def __init__(self) -> None:
        self._preemptions = self._lost_with_node = self._failed = 0
        self.lost_milli_ms = self.restart_milli_ms = 0
        self._lost_micro_usd_ms = self._restart_micro_usd_ms = 0
        self._deadlines = [0, 0]
        self._slos = [0, 0]

    def attempt_ended(self, job: LiveJob, cause: type, at_ms: int) -> None:
        """Divides the attempt's time into useful, restart and lost time.

        A job that was cancelled or reached its time limit loses no work.
        """
        intended = cause is AttemptSucceeded or job.cancelled or job.expired
        restart_ms, lost_ms = job.divide(at_ms, lost=not intended)
        assert job.placement is not None
        hourly = job.placement.all_micro_usd_per_hour
        job.team.paid_micro_usd_ms += hourly * (at_ms - job.assigned_ms)
        if restart_ms:
            self.restart_milli_ms += job.gpu_milli * restart_ms
            self._restart_micro_usd_ms += hourly * restart_ms
        if intended:
            return
        self.lost_milli_ms += job.gpu_milli * lost_ms
        self._lost_micro_usd_ms += hourly * lost_ms
        job.team.lost_milli_ms += job.gpu_milli * lost_ms
        job.team.lost_micro_usd_ms += hourly * lost_ms
        if cause is AttemptPreempted:
            self._preemptions += 1
            job.team.preemptions += 1
        elif cause is NodeLost:
            self._lost_with_node += 1
        elif cause is AttemptFailed:
            self._failed += 1

    def job_ended(self, job: LiveJob, at_ms: int, *, succeeded: bool) -> None:
        """Counts the outcome; deadlines and SLOs of cancelled jobs are not counted."""
        team, spec = job.team, job.spec
        if succeeded:
            team.succeeded += 1
        elif job.cancelled:
            team.cancelled += 1
            return
        else:
            team.failed += 1
        if spec.deadline_ms is not None:
            self._deadlines[succeeded and at_ms <= spec.deadline_ms] += 1
        if spec.slo is not None:
            in_time = succeeded and at_ms <= job.submitted_ms + spec.slo.within_ms
            self._slos[in_time or job.slo_met] += 1

    def losses(self) -> Losses:
        return Losses(
            preemptions=self._preemptions,
            attempts_lost_with_node=self._lost_with_node,
            attempts_failed=self._failed,
            lost_gpu_milli_ms=self.lost_milli_ms,
            lost_micro_usd=self._lost_micro_usd_ms // HOUR_MS,
            restart_gpu_milli_ms=self.restart_milli_ms,
            restart_micro_usd=self._restart_micro_usd_ms // HOUR_MS,
        )

    def promises(self, unfinished: list[LiveJob], end_ms: int) -> Promises:
        """Includes unfinished jobs: their deadlines and SLOs are missed once the time has passed."""
        late = sum(
            job.spec.deadline_ms is not None and job.spec.deadline_ms < end_ms for job in unfinished
        )
        slos = [job for job in unfinished if job.spec.slo is not None]
        met = sum(job.slo_met for job in slos)
        due = sum(
            not job.slo_met and job.submitted_ms + job.spec.slo.within_ms < end_ms
            for job in slos
            if job.spec.slo is not None
        )
        return Promises(
            deadlines_kept=self._deadlines[1],
            deadlines_missed=self._deadlines[0] + late,
            slos_kept=self._slos[1] + met,
            slos_missed=self._slos[0] + due,
        )

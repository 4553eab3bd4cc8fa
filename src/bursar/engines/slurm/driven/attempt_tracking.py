"""State of a tracked attempt, and what to do when Slurm's queue no longer lists it."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from bursar.engines.slurm.commands.job_query import NODE_LOST, SlurmJobState
from bursar.engines.slurm.driven.attempt_folder import CLAIM, EndRecord, SlurmAttemptFolder
from bursar.engines.slurm.driven.script import CANNOT_CLAIM
from bursar.engines.status_file import StatusFile
from bursar.model.jobs.attempt import Exit
from bursar.ports import AttemptRef

LATE_SECONDS = 2.0
"""How long the script's record may arrive after Slurm's state: shared folders can be slow."""
MOST_SUBMISSIONS = 8
FIRST_SIGNAL_CODE, LAST_SIGNAL_CODE = 129, 159
"""Exit codes of a shell whose command was ended by a signal."""


@dataclass(slots=True, kw_only=True)
class StopState:
    """A requested stop. Times are of the monotonic clock."""

    grace_seconds: int
    kill_at: float
    signal_sent: bool = False
    kill_sent: bool = False


@dataclass(slots=True, kw_only=True)
class TrackedAttempt:
    """One attempt whose end is not yet committed."""

    ref: AttemptRef
    folder: SlurmAttemptFolder
    status: StatusFile
    ids: list[str] = field(default_factory=list)
    """Its Slurm jobs, newest last. More than one only after an in-doubt submission or a loss."""
    replaced_ids: set[str] = field(default_factory=set)
    """Slurm jobs that never started the attempt and were replaced."""
    running_since: float | None = None
    """Since when Slurm reports it as running although its script has not started."""
    nodes: tuple[str, ...] = ()
    gpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The devices assigned to it, by node."""
    grace_seconds: int = 0
    stop_signal: str = "SIGTERM"
    is_live: bool = True
    """False if the control plane does not list it as live: it is stopped without reports."""
    submitted_at: float = 0.0
    is_sending: bool = False
    submissions: int = 0
    in_doubt: bool = False
    send_at: float = 0.0
    began_reported: bool = False
    end_reported: bool = False
    stop: StopState | None = None
    missing_since: float | None = None

    def add(self, slurm_id: str) -> None:
        """Add a Slurm job of this attempt."""
        if slurm_id in self.replaced_ids:
            return
        if slurm_id not in self.ids:
            self.ids.append(slurm_id)
        self.submitted_at = self.submitted_at or time.monotonic()

    @property
    def main_id(self) -> str:
        """The Slurm job that ran the attempt, else the newest one, else ""."""
        return self.folder.claimed_by or (self.ids[-1] if self.ids else "")

    def drop_ids(self, ids: set[str]) -> None:
        """Drop ids that Slurm has reused for other jobs after losing its state."""
        for slurm_id in ids.intersection(self.ids):
            self.ids.remove(slurm_id)

    def schedule_resubmit(self, after_seconds: float) -> None:
        """The submitted job is lost: check the queue once more, then submit it again."""
        self.replaced_ids.update(self.ids)
        self.ids.clear()
        self.in_doubt = True
        self.running_since = None
        self.submitted_at = 0.0
        self.missing_since = None
        self.send_at = time.monotonic() + after_seconds

    @property
    def is_unsent(self) -> bool:
        if self.ids or self.end_reported or self.is_sending:
            return False
        return not self.folder.has(CLAIM)


def split_code(code: int | None) -> tuple[int | None, int | None]:
    """Split a shell's exit code into the command's own code or the signal that ended it."""
    if code is not None and FIRST_SIGNAL_CODE <= code <= LAST_SIGNAL_CODE:
        return None, code - FIRST_SIGNAL_CODE + 1
    return code, None


def exit_of(record: EndRecord, attempt: TrackedAttempt, state: SlurmJobState | None) -> Exit:
    """The exit of an attempt, from its script's record, our stop order and Slurm's state."""
    code, number = split_code(record.code)
    detail = record.detail
    if attempt.stop is not None and not attempt.folder.is_blocked:
        is_described = detail.startswith("stopped as ordered")
        detail = detail if is_described else _stop_detail(attempt, detail)
    elif state is not None and state.external_cause:
        suffix = f"; {detail}" if detail else ""
        return Exit(signal=number or int(signal.SIGTERM), detail=f"{state.external_cause}{suffix}")
    return Exit(code=code, signal=number, detail=detail)


def _stop_detail(attempt: TrackedAttempt, detail: str) -> str:
    assert attempt.stop is not None
    grace = f"{attempt.stop.grace_seconds} s"
    how = f"killed after a grace of {grace}" if attempt.stop.kill_sent else f"ended within {grace}"
    suffix = f"; {detail}" if detail else ""
    return f"stopped as ordered, {how}{suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What to do with an attempt that left Slurm's queue without recording an end."""

    ended: Exit | None = None
    submit_again: bool = False
    node_lost: bool = False


KEEP_WAITING = Resolution()


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingContext:
    """What the decision about a missing attempt also depends on."""

    missing_seconds: float
    timeout_seconds: float
    """How long Slurm may not know a started attempt before it is lost."""
    ids_were_reused: bool
    """Slurm lost its state and reuses ids: it confuses the ends of old jobs with those of new ones."""


def resolve_missing(
    attempt: TrackedAttempt, state: SlurmJobState | None, context: MissingContext
) -> Resolution:
    """Decide by the claim and by Slurm's state. Without a claim the attempt never ran."""
    has_run = attempt.folder.has(CLAIM) and not attempt.folder.is_blocked
    if state is None or not state.is_over:
        return _unknown_to_slurm(attempt, has_run, context)
    if state.state in NODE_LOST:
        again = not has_run and attempt.stop is None and attempt.submissions < MOST_SUBMISSIONS
        ended = None if again else Exit(detail=state.external_cause)
        return Resolution(node_lost=True, submit_again=again, ended=ended)
    if not has_run:
        return _never_ran(attempt, state, context)
    if state.code == 0 and state.signal == 0 and context.missing_seconds < LATE_SECONDS:
        return KEEP_WAITING
    return Resolution(ended=_exit_by_slurm(attempt, state))


def _unknown_to_slurm(
    attempt: TrackedAttempt, has_run: bool, context: MissingContext
) -> Resolution:
    """A slurmctld that was killed loses the state that it had not saved yet."""
    if attempt.stop is not None and not has_run:
        return Resolution(ended=Exit(detail="stopped as ordered, before its tasks were started"))
    if not has_run and attempt.submissions < MOST_SUBMISSIONS:
        return Resolution(submit_again=True)
    if context.missing_seconds < context.timeout_seconds:
        return KEEP_WAITING
    return Resolution(ended=Exit(detail="lost: Slurm no longer knows it"))


def _never_ran(
    attempt: TrackedAttempt, state: SlurmJobState, context: MissingContext
) -> Resolution:
    if attempt.stop is not None:
        return Resolution(ended=Exit(detail="stopped as ordered, before its tasks were started"))
    if state.code == CANNOT_CLAIM:
        where = ", ".join(state.nodes)
        text = f"not started: {where} cannot write to {attempt.folder.path}; share that folder"
        return Resolution(ended=Exit(code=CANNOT_CLAIM, detail=text))
    # A slurmd that cannot launch a job cancels it; that job has nodes. A job that a user cancelled in the
    # queue has none.
    if state.external_cause and not state.nodes and not context.ids_were_reused:
        detail = f"{state.external_cause}, before its tasks were started"
        return Resolution(ended=Exit(detail=detail))
    if attempt.submissions < MOST_SUBMISSIONS:
        return Resolution(submit_again=True)
    reason = f"{state.state}, {state.reason or 'no reason given'}"
    return Resolution(ended=Exit(detail=f"not started: Slurm could not launch it ({reason})"))


def _exit_by_slurm(attempt: TrackedAttempt, state: SlurmJobState) -> Exit:
    code, number = split_code(state.code or None)
    if state.signal:
        code, number = None, state.signal
    before = "" if attempt.folder.record().began_at_ms else "before its tasks were started"
    if attempt.stop is not None:
        if attempt.stop.kill_sent:
            code, number = None, int(signal.SIGKILL)
        return Exit(code=code, signal=number, detail=_stop_detail(attempt, before))
    detail = state.external_cause or (
        ""
        if number or code
        else "lost: its script ended before it could record how its tasks ended"
    )
    return Exit(code=code, signal=number, detail=detail)

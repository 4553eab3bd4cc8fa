"""What is remembered of an attempt between two looks at it, and what a look means."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field

from bursar.engines.slurm.commands.job_query import NODE_LOST, SlurmJobState
from bursar.engines.slurm.driven.attempt_folder import TAKEN, EndRecord, SlurmAttemptFolder
from bursar.engines.slurm.driven.script import CANNOT_MARK
from bursar.engines.slurm.driven.settings import StatusReader
from bursar.model.jobs.attempt import Exit
from bursar.ports import AttemptRef

LATE_SECONDS = 2.0
"""How long after Slurm's word the script's own may still come: shared folders are not always quick."""
MOST_SUBMISSIONS = 8
FIRST_SIGNAL_CODE, LAST_SIGNAL_CODE = 129, 159
"""The codes by which a shell says that a signal ended its command."""


@dataclass(slots=True, kw_only=True)
class StopState:
    """A stop that was ordered. Times are of the monotonic clock."""

    grace_seconds: int
    kill_at: float
    asked: bool = False
    killed: bool = False


@dataclass(slots=True, kw_only=True)
class TrackedAttempt:
    """One attempt whose end is not yet committed."""

    ref: AttemptRef
    folder: SlurmAttemptFolder
    ids: list[str] = field(default_factory=list)
    """Of its Slurm jobs, newest last. More than one only after a doubtful submission or a loss."""
    given_up: set[str] = field(default_factory=set)
    """Slurm jobs that never began what they were for and were replaced."""
    running_since: float | None = None
    """Since when Slurm says that it runs while its script has not begun."""
    nodes: tuple[str, ...] = ()
    gpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Which of a node's devices it was given by us."""
    is_wanted: bool = True
    """False for what the control plane does not count as live: it is ended and not spoken of."""
    submitted_at: float = 0.0
    is_sending: bool = False
    submissions: int = 0
    in_doubt: bool = False
    send_at: float = 0.0
    told_began: bool = False
    told_ended: bool = False
    stop: StopState | None = None
    missing_since: float | None = None
    reader: StatusReader | None = None

    def add(self, ident: str) -> None:
        """One more Slurm job is this attempt's."""
        if ident in self.given_up:
            return
        if ident not in self.ids:
            self.ids.append(ident)
        self.submitted_at = self.submitted_at or time.monotonic()

    @property
    def main_id(self) -> str:
        """The Slurm job that ran it, if one did; else the newest; nothing when none is left."""
        return self.folder.taken_by or (self.ids[-1] if self.ids else "")

    def disown(self, ids: set[str]) -> None:
        """Slurm has given these ids to other jobs: one that forgets begins to count again."""
        for ident in ids.intersection(self.ids):
            self.ids.remove(ident)

    def send_again(self, after_seconds: float) -> None:
        """What was submitted is lost: look for it once more, then submit it again."""
        self.given_up.update(self.ids)
        self.ids.clear()
        self.in_doubt = True
        self.running_since = None
        self.submitted_at = 0.0
        self.missing_since = None
        self.send_at = time.monotonic() + after_seconds

    @property
    def is_unsent(self) -> bool:
        if self.ids or self.told_ended or self.is_sending:
            return False
        return not self.folder.has(TAKEN)


def split_code(code: int | None) -> tuple[int | None, int | None]:
    """A shell's exit code as a code of the command's own, or the signal that ended it."""
    if code is not None and FIRST_SIGNAL_CODE <= code <= LAST_SIGNAL_CODE:
        return None, code - FIRST_SIGNAL_CODE + 1
    return code, None


def exit_of(record: EndRecord, followed: TrackedAttempt, fate: SlurmJobState | None) -> Exit:
    """How an attempt ended, from what its script wrote, what we ordered, and what Slurm did to it."""
    code, number = split_code(record.code)
    detail = record.detail
    if followed.stop is not None and not followed.folder.was_never_run:
        ordered = detail.startswith("stopped as ordered")
        detail = detail if ordered else _stopped(followed, detail)
    elif fate is not None and fate.words:
        own = f"; {detail}" if detail else ""
        return Exit(signal=number or int(signal.SIGTERM), detail=f"{fate.words}{own}")
    return Exit(code=code, signal=number, detail=detail)


def _stopped(followed: TrackedAttempt, detail: str) -> str:
    assert followed.stop is not None
    grace = f"{followed.stop.grace_seconds} s"
    how = f"killed after a grace of {grace}" if followed.stop.killed else f"ended within {grace}"
    own = f"; {detail}" if detail else ""
    return f"stopped as ordered, {how}{own}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be done about an attempt that is not in Slurm's queue and has not said that it ended."""

    ended: Exit | None = None
    submit_again: bool = False
    node_lost: bool = False


NOTHING_YET = Verdict()


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What must be known beside the attempt."""

    missing_seconds: float
    patience_seconds: float
    """How long Slurm may know nothing of what had begun."""
    slurm_forgot: bool
    """Slurm counts ids again that it had given away: it takes the ends of the jobs that it forgot for those
    of the jobs that now have their ids."""


def verdict(followed: TrackedAttempt, fate: SlurmJobState | None, about: Circumstances) -> Verdict:
    """Judge by the mark and by Slurm's word. Without the mark nothing of it ever ran."""
    missing_seconds, patience = about.missing_seconds, about.patience_seconds
    ran = followed.folder.has(TAKEN) and not followed.folder.was_never_run
    if fate is None or not fate.is_over:
        return _unknown(followed, ran, missing_seconds, patience)
    if fate.state in NODE_LOST:
        again = not ran and followed.stop is None and followed.submissions < MOST_SUBMISSIONS
        return Verdict(
            node_lost=True, submit_again=again, ended=None if again else Exit(detail=fate.words)
        )
    if not ran:
        return _never_ran(followed, fate, about)
    if fate.code == 0 and fate.signal == 0 and missing_seconds < LATE_SECONDS:
        return NOTHING_YET
    return Verdict(ended=_by_slurm(followed, fate))


def _unknown(
    followed: TrackedAttempt, ran: bool, missing_seconds: float, patience: float
) -> Verdict:
    """Slurm has forgotten it: a controller that was killed loses what it had not yet saved."""
    if followed.stop is not None and not ran:
        return Verdict(ended=Exit(detail="stopped as ordered, before its tasks were started"))
    if not ran and followed.submissions < MOST_SUBMISSIONS:
        return Verdict(submit_again=True)
    if missing_seconds < patience:
        return NOTHING_YET
    return Verdict(ended=Exit(detail="lost: Slurm knows nothing of it any more"))


def _never_ran(followed: TrackedAttempt, fate: SlurmJobState, about: Circumstances) -> Verdict:
    if followed.stop is not None:
        return Verdict(ended=Exit(detail="stopped as ordered, before its tasks were started"))
    if fate.code == CANNOT_MARK:
        where = ", ".join(fate.nodes)
        text = f"not started: {where} cannot write to {followed.folder.path}; share that folder"
        return Verdict(ended=Exit(code=CANNOT_MARK, detail=text))
    # A slurmd that cannot launch a job cancels it. That one has nodes; one that somebody cancelled in the
    # queue has none.
    if fate.words and not fate.nodes and not about.slurm_forgot:
        return Verdict(ended=Exit(detail=f"{fate.words}, before its tasks were started"))
    if followed.submissions < MOST_SUBMISSIONS:
        return Verdict(submit_again=True)
    text = (
        f"not started: Slurm could not launch it ({fate.state}, {fate.reason or 'no reason given'})"
    )
    return Verdict(ended=Exit(detail=text))


def _by_slurm(followed: TrackedAttempt, fate: SlurmJobState) -> Exit:
    code, number = split_code(fate.code or None)
    if fate.signal:
        code, number = None, fate.signal
    before = "" if followed.folder.tale().began_at_ms else "before its tasks were started"
    if followed.stop is not None:
        if followed.stop.killed:
            code, number = None, int(signal.SIGKILL)
        return Exit(code=code, signal=number, detail=_stopped(followed, before))
    detail = fate.words or (
        "" if number or code else "lost: its script was ended before it could say how its tasks did"
    )
    return Exit(code=code, signal=number, detail=detail)

"""What the engines of a simulated fleet do with orders, and what becomes of the work.

Each live attempt has exactly one thing to come on the clock: its start, its next checkpoint, its end,
its failure, or its leaving. An order to stop replaces that one thing, so nothing is left over when plans
change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, assert_never

from bursar.core.quota.charge import run_time_of
from bursar.model.decision import (
    ClaimPlacement,
    EvacuateJob,
    Order,
    PartitionGpu,
    PreemptJob,
    ReleaseClaim,
    StartJob,
    StopJob,
    StopReason,
)
from bursar.model.errors import BrokenInvariant
from bursar.model.event import (
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    Event,
    JobCancelled,
    JobSubmitted,
    NodeLost,
    PreemptionCause,
)
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec
from bursar.model.units import MILLI
from bursar.simulate.faults import Faults, InjectedFate
from bursar.simulate.scenario import Delays
from bursar.simulate.virtual_clock import AT_MS, WHAT, Entry, VirtualClock

# Members of an enum are looked up by a method of the enum; a name of this module costs nothing.
_BY_ORDER: Final = PreemptionCause.ORDER


class _Work:
    """How far a job has come. What is not saved is gone when its attempt is."""

    __slots__ = ("has_run", "over", "run", "run_ms", "saved_ms", "spec")

    def __init__(self, spec: JobSpec, run_ms: int) -> None:
        self.spec = spec
        self.has_run = False
        self.over = False
        self.run_ms = run_ms
        self.saved_ms = 0
        self.run: _Run | None = None


class _Run:
    """A live attempt: since when it makes progress that is not saved yet, and when it must leave."""

    __slots__ = (
        "attempt",
        "cause",
        "entry",
        "fails_at_ms",
        "fate",
        "granted",
        "leaves_at_ms",
        "nodes",
        "since_ms",
        "wanted",
    )

    def __init__(
        self, attempt: int, spec: JobSpec, placement: Placement, fate: InjectedFate
    ) -> None:
        tasks, groups = placement.tasks, spec.groups
        self.attempt = attempt
        self.fate = fate
        if placement.anchors is not None:
            tasks = placement.all_tasks
        if len(tasks) == 1 == len(groups):
            self.nodes: Collection[str] = (tasks[0].node,)
            self.wanted = groups[0].count * fate.slow_milli
            self.granted = tasks[0].count * MILLI
        else:
            self.nodes = {task.node for task in tasks}
            self.wanted = sum(group.count for group in groups) * fate.slow_milli
            self.granted = sum(task.count for task in tasks) * MILLI
        self.since_ms: int | None = None
        self.fails_at_ms: int | None = None
        self.leaves_at_ms: int | None = None
        self.cause = _BY_ORDER
        self.entry: Entry | None = None

    def begin(self, since_ms: int, work_left_ms: int) -> None:
        """From now on it makes progress, and if it is to fail, it is known when."""
        self.since_ms = since_ms
        if self.fate.fails_at_milli is not None:
            done_ms = work_left_ms * self.fate.fails_at_milli // MILLI
            self.fails_at_ms = since_ms + self.time_for(done_ms)

    def progress_ms(self, elapsed_ms: int) -> int:
        """Work done in a stretch of time: an elastic gang with half its tasks is half as fast."""
        return elapsed_ms * self.granted // self.wanted

    def time_for(self, work_ms: int) -> int:
        return -(-work_ms * self.wanted // self.granted)


class SimulatedEngines:
    """Obeys orders on a virtual clock."""

    def __init__(
        self,
        clock: VirtualClock,
        run_ms: Mapping[str, int],
        delays: Delays,
        faults: Faults | None = None,
    ) -> None:
        self._clock = clock
        self._run_ms = run_ms
        self._delays = delays
        self._faults = faults
        self._untroubled = InjectedFate(start_ms=delays.start_ms)
        self._works: dict[str, _Work] = {}
        self._on_node: dict[str, set[str]] | None = None
        self._follow: dict[type, Callable[..., None]] = {
            JobSubmitted: self._submitted,
            JobCancelled: self._cancelled,
            AttemptStarted: self._started,
            CheckpointSaved: self._saved,
            AttemptSucceeded: self._succeeded,
            AttemptPreempted: self._cut_short,
            AttemptFailed: self._cut_short,
            NodeLost: self._lose,
        }

    # -- orders ----------------------------------------------------------------------------------

    def carry_out(self, order: Order) -> None:
        """Begin what an order asks for; its outcome is reported when it comes true."""
        match order:
            case StartJob():
                self._start(order)
            case PreemptJob(job_id=job_id):
                self._stop(job_id)
            case EvacuateJob(job_id=job_id, grace_ms=grace_ms):
                self._live(job_id)[1].cause = PreemptionCause.NOTICE
                self._stop(job_id, at_most_ms=grace_ms)
            case StopJob(job_id=job_id, reason=StopReason.BUDGET | StopReason.MOVE):
                self._stop(job_id)
            case StopJob(job_id=job_id):
                self._works[job_id].over = True
                self._stop(job_id)
            case ClaimPlacement() | ReleaseClaim() | PartitionGpu():
                pass
            case _:
                assert_never(order)

    # -- events ----------------------------------------------------------------------------------

    def follower_of(self, kind: type[Event]) -> Callable[..., None] | None:
        """What lets events of a kind have their consequences once they have come true."""
        return self._follow.get(kind)

    def _submitted(self, event: JobSubmitted) -> None:
        job_id, spec = event.job_id, event.spec
        self._works[job_id] = _Work(spec, self._true_run_ms(job_id, spec))

    def _started(self, event: AttemptStarted) -> None:
        job_id = event.job_id
        work = self._works[job_id]
        run = work.run
        assert run is not None
        restart_ms = work.spec.checkpoint.restart_ms if work.has_run else 0
        work.has_run = True
        run.begin(event.at_ms + restart_ms, work.run_ms - work.saved_ms)
        self._plan(job_id, work, run)

    def _saved(self, event: CheckpointSaved) -> None:
        work, run = self._live(event.job_id)
        assert run.since_ms is not None
        work.saved_ms += run.progress_ms(event.at_ms - run.since_ms)
        run.since_ms = event.at_ms
        self._plan(event.job_id, work, run)

    def _succeeded(self, event: AttemptSucceeded) -> None:
        if self._on_node is not None:
            self._leave(event.job_id)
        del self._works[event.job_id]

    def _cut_short(self, event: AttemptPreempted | AttemptFailed) -> None:
        self._leave(event.job_id)
        self._forget_if_over(event.job_id)

    def _cancelled(self, event: JobCancelled) -> None:
        if event.job_id in self._works:
            self._works[event.job_id].over = True
            self._forget_if_over(event.job_id)

    def forget(self, job_id: str) -> None:
        """The job is over and will not be tried again."""
        self._works.pop(job_id, None)

    def save_on(self, node: str) -> None:
        """What runs on a node and saves checkpoints at all saves one now."""
        now_ms = self._clock.now_ms
        for job_id in self._holders(node):
            work, run = self._live(job_id)
            saves = work.spec.checkpoint.interval_ms is not None
            if saves and run.since_ms is not None and run.since_ms < now_ms:
                saved = CheckpointSaved(at_ms=now_ms, job_id=job_id, attempt=run.attempt)
                if run.entry is not None:
                    self._clock.drop(run.entry)
                run.entry = self._clock.push(saved)

    # -- small steps -----------------------------------------------------------------------------

    def _fate(self, job_id: str, attempt: int) -> InjectedFate:
        assert self._faults is not None
        return self._faults.fate(job_id, attempt, self._delays.start_ms)

    def _start(self, order: StartJob) -> None:
        job_id, attempt = order.job_id, order.attempt
        work = self._works[job_id]
        if work.run is not None:
            raise BrokenInvariant(f"{job_id}: attempt {attempt} beside a live one")
        fate = self._untroubled if self._faults is None else self._fate(job_id, attempt)
        run = work.run = _Run(attempt, work.spec, order.placement, fate)
        if self._on_node is not None:
            self._settle(job_id, run, self._on_node)
        at_ms = self._clock.now_ms + fate.start_ms
        started = AttemptStarted(at_ms=at_ms, job_id=job_id, attempt=attempt)
        run.entry = self._clock.push(started)

    def _leave(self, job_id: str) -> None:
        work, run = self._live(job_id)
        if self._on_node is not None:
            for node in run.nodes:
                self._on_node[node].discard(job_id)
        work.run = None

    def _holders(self, node: str) -> list[str]:
        """Whose attempts are on a node. Who is where is written down once anybody asks.

        In a run in which no node is ever lost, nobody does.
        """
        if self._on_node is None:
            self._on_node = {}
            for job_id, work in self._works.items():
                if work.run is not None:
                    self._settle(job_id, work.run, self._on_node)
        return sorted(self._on_node.get(node, ()))

    @staticmethod
    def _settle(job_id: str, run: _Run, on_node: dict[str, set[str]]) -> None:
        for node in run.nodes:
            on_node.setdefault(node, set()).add(job_id)

    def _stop(self, job_id: str, at_most_ms: int | None = None) -> None:
        work, run = self._live(job_id)
        if run.leaves_at_ms is None:
            needs_ms = self._delays.stop_ms
            stop_ms = needs_ms if at_most_ms is None else min(needs_ms, at_most_ms)
            run.leaves_at_ms = self._clock.now_ms + stop_ms
            self._plan(job_id, work, run)

    def _forget_if_over(self, job_id: str) -> None:
        work = self._works[job_id]
        if work.over and work.run is None:
            del self._works[job_id]

    def _plan(self, job_id: str, work: _Work, run: _Run) -> None:
        """Put the attempt's next thing on the clock, in place of what was there."""
        event = self._undisturbed(job_id, work, run)
        leaves_at_ms = run.leaves_at_ms
        if leaves_at_ms is not None and leaves_at_ms <= event.at_ms:
            event = AttemptPreempted(
                at_ms=leaves_at_ms, job_id=job_id, attempt=run.attempt, cause=run.cause
            )
        if run.entry is not None and run.entry[WHAT] is not None:
            self._clock.drop(run.entry)
        run.entry = self._clock.push(event)

    def _undisturbed(self, job_id: str, work: _Work, run: _Run) -> Event:
        """What comes next if nobody intervenes."""
        attempt = run.attempt
        if run.since_ms is None:
            at_ms = run.entry[AT_MS] if run.entry else self._clock.now_ms + run.fate.start_ms
            return AttemptStarted(at_ms=at_ms, job_id=job_id, attempt=attempt)
        left_ms = work.run_ms - work.saved_ms
        if run.wanted != run.granted:
            left_ms = run.time_for(left_ms)
        end_ms = run.since_ms + left_ms
        fails = False
        if run.fails_at_ms is not None and run.fails_at_ms < end_ms:
            fails = True
            end_ms = max(self._clock.now_ms, run.fails_at_ms)
        interval_ms = work.spec.checkpoint.interval_ms
        if interval_ms is not None and run.since_ms + interval_ms < end_ms:
            at_ms = run.since_ms + interval_ms
            return CheckpointSaved(at_ms=at_ms, job_id=job_id, attempt=attempt)
        if fails:
            return AttemptFailed(at_ms=end_ms, job_id=job_id, attempt=attempt)
        return AttemptSucceeded(at_ms=end_ms, job_id=job_id, attempt=attempt)

    def _live(self, job_id: str) -> tuple[_Work, _Run]:
        work = self._works[job_id]
        assert work.run is not None
        return work, work.run

    def _lose(self, event: NodeLost) -> None:
        for job_id in self._holders(event.node):
            _, run = self._live(job_id)
            assert run.entry is not None
            self._clock.drop(run.entry)
            self._leave(job_id)
            self._forget_if_over(job_id)
        if self._on_node is not None:
            self._on_node.pop(event.node, None)

    def _true_run_ms(self, job_id: str, spec: JobSpec) -> int:
        run_ms = self._run_ms.get(job_id)
        if run_ms is None:
            run_ms = spec.expected_run_ms or run_time_of(spec)
        if run_ms is None or run_ms <= 0:
            raise BrokenInvariant(f"{job_id}: how long it really runs is not known")
        return run_ms

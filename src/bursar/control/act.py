"""Carries out committed orders. Everything here may be repeated: engines take an order twice as once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bursar.model.attempt import Exit, Placement
from bursar.model.errors import EngineFault
from bursar.model.fleet import EngineKind
from bursar.model.gpu import Layout
from bursar.model.job import JobSpec
from bursar.model.report import Report, TasksEnded
from bursar.ports import AttemptRef, Engine, JobOrigin, StartOrder, StoreReader

TRIES = 5
MOST_AT_ONCE = 200
"""So many orders share one question to the store."""
LONGEST_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAct:
    """Run an attempt."""

    ref: AttemptRef
    engine: EngineKind
    spec: JobSpec
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAct:
    """End an attempt. ``grace_seconds`` None: as its recipe says, but ``at_most_seconds`` if given."""

    ref: AttemptRef
    engine: EngineKind
    grace_seconds: int | None = None
    at_most_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAct:
    """Cut a GPU."""

    node: str
    gpu: int
    layout: Layout
    engine: EngineKind


Act = StartAct | StopAct | PartitionAct


class Actor:
    """A thread that hands orders to engines, in the order in which they were committed."""

    def __init__(
        self,
        engines: Mapping[EngineKind, Engine],
        reader: StoreReader,
        report: Callable[[Iterable[Report]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._engines = engines
        self._reader = reader
        self._report = report
        self._now_ms = now_ms
        self._acts: queue.SimpleQueue[Act | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="bursar-act", daemon=True)
        self._closing = threading.Event()
        self.faults: dict[str, str] = {}
        """The last thing that each engine could not do, by kind; gone when it can again."""

    def start(self) -> None:
        self._thread.start()

    def put(self, acts: Iterable[Act]) -> None:
        for act in acts:
            self._acts.put(act)

    def close(self) -> None:
        """Finish the order at hand, leave the others: they are found again at the next start."""
        self._closing.set()
        self._acts.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while (act := self._acts.get()) is not None:
            acts = [act]
            while len(acts) < MOST_AT_ONCE and not self._acts.empty():
                if (another := self._acts.get()) is None:
                    return
                acts.append(another)
            origins = self._origins_for(acts)
            for one in acts:
                if self._closing.is_set():
                    return
                self._carry_out(one, origins)

    def _origins_for(self, acts: Sequence[Act]) -> Mapping[str, JobOrigin]:
        """What the jobs of these orders run. While the store does not answer, each order asks by itself."""
        wanted = [one.ref.job_id for one in acts if not isinstance(one, PartitionAct)]
        try:
            return self._reader.origins(wanted)
        except EngineFault:
            return {}

    def _carry_out(self, act: Act, origins: Mapping[str, JobOrigin]) -> None:
        """Try, and try again after a while.

        What could not be started may be there all the same (an answer was lost), so it is stopped, and
        the engine's word that it has ended is what counts. A stop is never given up.
        """
        for number in range(TRIES):
            try:
                self._once(act, origins)
            except Exception as error:
                # Whatever it is, also a fault of ours: nobody else would carry out the orders behind it.
                fault = fault_of(error)
                self.faults[act.engine] = str(fault)
                if self._pause(min(fault.retry_after_seconds * 2**number, LONGEST_PAUSE_SECONDS)):
                    return
            else:
                self.faults.pop(act.engine, None)
                return
        if isinstance(act, StartAct):
            self._acts.put(StopAct(ref=act.ref, engine=act.engine, grace_seconds=0))
        elif isinstance(act, StopAct):
            self._acts.put(act)

    def _pause(self, seconds: float) -> bool:
        """Wait; whether we are to close meanwhile."""
        return self._closing.wait(seconds)

    def _once(self, act: Act, origins: Mapping[str, JobOrigin]) -> None:
        engine = self._engines.get(act.engine)
        if engine is None:
            raise EngineFault(f"no {act.engine} engine is here", retry_after_seconds=1)
        match act:
            case StartAct(ref=ref, spec=spec, placement=placement):
                origin = origins.get(ref.job_id) or self._reader.origin(ref.job_id)
                if origin is None:
                    self._report([self._ended(ref, "what it should run is not in the store")])
                    return
                engine.start(
                    StartOrder(
                        ref=ref,
                        name=spec.name,
                        queue=spec.queue,
                        placement=placement,
                        recipe=origin.recipe,
                        spec=spec,
                    )
                )
            case StopAct(ref=ref, grace_seconds=grace):
                if grace is None:
                    origin = origins.get(ref.job_id) or self._reader.origin(ref.job_id)
                    grace = origin.recipe.grace_seconds if origin is not None else 0
                if act.at_most_seconds is not None:
                    grace = min(grace, act.at_most_seconds)
                engine.stop(ref, grace)
            case PartitionAct(node=node, gpu=gpu, layout=layout):
                engine.partition(node, gpu, layout)

    def _ended(self, ref: AttemptRef, detail: str) -> TasksEnded:
        return TasksEnded(
            job_id=ref.job_id,
            attempt=ref.attempt,
            at_ms=self._now_ms(),
            exit=Exit(detail=detail),
        )


def fault_of(error: Exception) -> EngineFault:
    """As an operator is told of it. A full disk, a folder that is gone for a while or a fault of ours is no
    reason to give up either."""
    if isinstance(error, EngineFault):
        return error
    what = "the engine's files" if isinstance(error, OSError) else type(error).__name__
    return EngineFault(f"{what}: {error}", retry_after_seconds=1.0)


class Listener:
    """A thread that waits for an engine's reports and passes them on."""

    def __init__(self, engine: Engine, report: Callable[[Iterable[Report]], None]) -> None:
        self.engine = engine
        self._report = report
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bursar-listen", daemon=True)
        self.fault = ""
        """Why its reports cannot be read just now; empty when they can."""

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                reports = self.engine.reports(timeout_seconds=0.5)
            except Exception as error:
                # Whatever it is, also a fault of ours: nobody else would ever hear of this engine's jobs.
                fault = fault_of(error)
                self.fault = f"its reports cannot be read: {fault}"
                self._closing.wait(min(fault.retry_after_seconds, LONGEST_PAUSE_SECONDS))
                continue
            self.fault = ""
            if reports:
                self._report(reports)

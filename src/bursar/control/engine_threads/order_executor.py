"""Carries out committed orders. All may be repeated: engines take an order twice as once."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from bursar.background import LONGEST_PAUSE_SECONDS, BackgroundThread, fault_of
from bursar.model.decision import PartitionGpu, StartJob
from bursar.model.engine_report import EngineReport, TasksEnded
from bursar.model.errors import EngineFault
from bursar.model.fleet.fleet import EngineKind
from bursar.model.jobs.attempt import Exit
from bursar.model.jobs.job import JobSpec
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import AttemptRef, Engine, JobOrigin, StartOrder, StoreReader

TRIES = 5
MOST_AT_ONCE = 200
"""So many orders share one query to the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """End an attempt. ``grace_seconds`` None: as its job asks, but ``at_most_seconds`` if given."""

    job_id: str
    attempt: int
    grace_seconds: int | None = None
    at_most_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOrder:
    """A committed order and the engine that must carry it out."""

    engine: EngineKind
    order: StartJob | StopOrder | PartitionGpu
    spec: JobSpec | None = None
    """Of the job that a ``StartJob`` is for."""


class OrderExecutor:
    """A thread that hands orders to engines, in the order in which they were committed."""

    def __init__(
        self,
        engines: Mapping[EngineKind, Engine],
        reader: StoreReader,
        report: Callable[[Sequence[EngineReport]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._engines = engines
        self._reader = reader
        self._report = report
        self._now_ms = now_ms
        self._orders: queue.SimpleQueue[EngineOrder | None] = queue.SimpleQueue()
        self._thread = BackgroundThread("bursar-orders", self._carry_out_next)
        self.faults: dict[str, str] = {}
        """The last thing that each engine could not do, by kind; gone when it can again."""

    def start(self) -> None:
        self._thread.start()

    def put(self, orders: Iterable[EngineOrder]) -> None:
        for order in orders:
            self._orders.put(order)

    def close(self) -> None:
        """Finish the order at hand, leave the others: they are found again at the next start."""
        self._thread.stop()
        self._orders.put(None)
        self._thread.close()

    def _carry_out_next(self) -> None:
        if (first := self._orders.get()) is None:
            return
        orders = [first]
        while len(orders) < MOST_AT_ONCE and not self._orders.empty():
            if (another := self._orders.get()) is None:
                return
            orders.append(another)
        origins = self._origins_for(orders)
        for one in orders:
            if self._thread.is_closing:
                return
            self._carry_out(one, origins)

    def _origins_for(self, orders: Sequence[EngineOrder]) -> Mapping[str, JobOrigin]:
        """What the jobs of these orders run. While the store does not answer, each order asks by itself."""
        wanted = [one.order.job_id for one in orders if not isinstance(one.order, PartitionGpu)]
        try:
            return self._reader.origins(wanted)
        except EngineFault:
            return {}

    def _carry_out(self, ordered: EngineOrder, origins: Mapping[str, JobOrigin]) -> None:
        """Try, and try again after a while.

        What could not be started may be there all the same (an answer was lost), so it is stopped, and
        the engine's word that it has ended is what counts. A stop is never given up.
        """
        for number in range(TRIES):
            try:
                self._once(ordered, origins)
            except Exception as error:
                # Whatever it is, also a fault of ours: nobody else would carry out the orders behind it.
                fault = fault_of(error)
                self.faults[ordered.engine] = str(fault)
                pause_seconds = min(fault.retry_after_seconds * 2**number, LONGEST_PAUSE_SECONDS)
                if self._thread.pause(pause_seconds):
                    return
            else:
                self.faults.pop(ordered.engine, None)
                return
        match ordered.order:
            case StartJob(job_id=job_id, attempt=attempt):
                stop = StopOrder(job_id=job_id, attempt=attempt, grace_seconds=0)
                self._orders.put(EngineOrder(engine=ordered.engine, order=stop))
            case StopOrder():
                self._orders.put(ordered)
            case PartitionGpu():
                pass

    def _once(self, ordered: EngineOrder, origins: Mapping[str, JobOrigin]) -> None:
        engine = self._engines.get(ordered.engine)
        if engine is None:
            raise EngineFault(f"no {ordered.engine} engine is here", retry_after_seconds=1)
        match ordered.order:
            case StartJob(job_id=job_id, attempt=attempt, placement=placement):
                recipe = self._recipe(job_id, origins)
                if recipe is None:
                    lost = Exit(detail="what it should run is not in the store")
                    at_ms = self._now_ms()
                    self._report(
                        [TasksEnded(job_id=job_id, attempt=attempt, at_ms=at_ms, exit=lost)]
                    )
                    return
                assert ordered.spec is not None
                ref = AttemptRef(job_id=job_id, attempt=attempt)
                engine.start(
                    StartOrder(ref=ref, placement=placement, recipe=recipe, spec=ordered.spec)
                )
            case StopOrder(job_id=job_id, attempt=attempt, grace_seconds=grace) as stop:
                if grace is None:
                    recipe = self._recipe(job_id, origins)
                    grace = recipe.grace_seconds if recipe is not None else 0
                if stop.at_most_seconds is not None:
                    grace = min(grace, stop.at_most_seconds)
                engine.stop(AttemptRef(job_id=job_id, attempt=attempt), grace)
            case PartitionGpu(node=node, gpu=gpu, layout=layout):
                engine.partition(node, gpu, layout)
            case _:
                assert_never(ordered.order)

    def _recipe(self, job_id: str, origins: Mapping[str, JobOrigin]) -> RunSpec | None:
        origin = origins.get(job_id) or self._reader.origin(job_id)
        return origin.recipe if origin is not None else None

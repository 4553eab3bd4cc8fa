"""Hands committed orders to engines and retries them. Orders are idempotent."""

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
MAX_BATCH_ORDERS = 200
"""Orders that share one query to the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """Stop an attempt. The job's own grace period by default, limited by ``at_most_seconds``."""

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
    """Spec of the job of a ``StartJob``."""


class OrderExecutor:
    """A thread that hands orders to engines in commit order."""

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
        """The last error of each engine, by kind; removed when an order succeeds."""

    def start(self) -> None:
        self._thread.start()

    def put(self, orders: Iterable[EngineOrder]) -> None:
        for order in orders:
            self._orders.put(order)

    def close(self) -> None:
        """Finish the current order; the next start recovers the others."""
        self._thread.stop()
        self._orders.put(None)
        self._thread.close()

    def _carry_out_next(self) -> None:
        if (first := self._orders.get()) is None:
            return
        orders = [first]
        while len(orders) < MAX_BATCH_ORDERS and not self._orders.empty():
            if (another := self._orders.get()) is None:
                return
            orders.append(another)
        origins = self._origins_for(orders)
        for one in orders:
            if self._thread.is_closing:
                return
            self._carry_out(one, origins)

    def _origins_for(self, orders: Sequence[EngineOrder]) -> Mapping[str, JobOrigin]:
        """Origins of the orders' jobs; empty if the store fails, then each order queries its own."""
        job_ids = [one.order.job_id for one in orders if not isinstance(one.order, PartitionGpu)]
        try:
            return self._reader.origins(job_ids)
        except EngineFault:
            return {}

    def _carry_out(self, ordered: EngineOrder, origins: Mapping[str, JobOrigin]) -> None:
        """Carry out an order, with retries and backoff.

        A start that failed may have taken effect (a lost response), so the attempt is stopped, and the
        engine's report of its end counts. A stop is retried forever.
        """
        for number in range(TRIES):
            try:
                self._try_once(ordered, origins)
            except Exception as error:
                # Any error, even a bug of ours: this thread must go on to the orders behind it.
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

    def _try_once(self, ordered: EngineOrder, origins: Mapping[str, JobOrigin]) -> None:
        engine = self._engines.get(ordered.engine)
        if engine is None:
            raise EngineFault(f"this server has no {ordered.engine} engine", retry_after_seconds=1)
        match ordered.order:
            case StartJob(job_id=job_id, attempt=attempt, placement=placement):
                recipe = self._recipe(job_id, origins)
                if recipe is None:
                    lost = Exit(detail="its run specification is not in the store")
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

"""All lines of a fleet: which kinds there are, and what their shapes can run on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from bursar.core.line import JobRecord, KindLine, LineKey, rank_of
from bursar.core.pool import PoolState
from bursar.core.shape import ShapePlan, planned_run_ms, shape_of
from bursar.model.fleet import Fleet
from bursar.model.job import JobSpec
from bursar.model.kind import Kind, Shape
from bursar.model.policy import Policies
from bursar.model.tenant import FlavorResource

PLANS_KEPT = 4_096
"""Plans of shapes that may come back; more than this, and those without jobs are dropped."""


class LineBook:
    """Lines by kind, and plans by shape. ``active`` holds the lines in which somebody waits."""

    def __init__(self, pools: Mapping[str, PoolState], fleet: Fleet, policies: Policies) -> None:
        self.lines: dict[LineKey, KindLine] = {}
        self.active: dict[LineKey, KindLine] = {}
        self._pools = pools
        self._policies = policies
        self._limited: Collection[FlavorResource] = ()
        self._plans: dict[Shape, ShapePlan] = {}
        self._plans_made = 0
        self._room_keys: dict[Shape, int] = {}
        self._run_times_matter = policies.backfill.reservations > 0 or any(
            spec.interruptions_per_million_hours for spec in fleet.pools
        )

    def match_again(self, limited: Collection[FlavorResource]) -> None:
        """Pools, prices or quotas changed: what shapes can run on must be worked out again."""
        self._limited = limited
        for plan in self._plans.values():
            plan.match(tuple(self._pools.values()), limited)

    def enlist(self, record: JobRecord) -> None:
        """Find the job's line and its place in it."""
        record.line = self._line_for(record.spec, record.priority)
        record.line.members += 1
        unknown_ms = self._policies.backfill.unknown_run_time_ms
        record.run_ms = planned_run_ms(record.spec) or unknown_ms
        record.rank = rank_of(record, self._policies.order, record.submitted_at_ms)

    def delist(self, record: JobRecord) -> None:
        """Undo ``enlist``: a line goes with its last job; plans are kept while they are few."""
        line = record.line
        line.members -= 1
        if not line.members:
            del self.lines[line.key]
            line.plan.lines -= 1
            if not line.plan.lines and len(self._plans) > PLANS_KEPT:
                self._plans = {shape: plan for shape, plan in self._plans.items() if plan.lines}
                used = {plan.room_key for plan in self._plans.values()}
                self._room_keys = {s: key for s, key in self._room_keys.items() if key in used}

    def _room_key(self, shape: Shape) -> int:
        """One number for shapes that differ in their run time alone: they need the same room."""
        return self._room_keys.setdefault(replace(shape, run_ms=None), self._plans_made)

    def _line_for(self, spec: JobSpec, priority: int) -> KindLine:
        """The line of a job's kind, made when the first such job arrives."""
        shape = shape_of(spec, with_run_time=self._run_times_matter)
        plan = self._plans.get(shape)
        if plan is None:
            plan = ShapePlan(self._plans_made, shape, self._policies.backfill.unknown_run_time_ms)
            self._plans_made += 1
            plan.room_key = self._room_key(shape)
            plan.match(tuple(self._pools.values()), self._limited)
            self._plans[shape] = plan
        key = (spec.queue, priority, plan.id)
        line = self.lines.get(key)
        if line is None:
            kind = Kind(queue=spec.queue, priority=priority, shape=plan.shape)
            line = self.lines[key] = KindLine(kind, plan, self.active)
            plan.lines += 1
        return line

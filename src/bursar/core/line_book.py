"""All lines of a fleet: which kinds there are, and what their shapes can run on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from bursar.core.experience import Experience, Likeness, Peers
from bursar.core.line import JobRecord, KindLine, LineKey, rank_of
from bursar.core.pool import PoolState
from bursar.core.shape import Places, ShapePlan, planned_run_ms
from bursar.core.steered import is_steered
from bursar.model.fleet import Fleet, Market
from bursar.model.job import Checkpoint, Constraints, JobSpec, JobState, TaskGroup
from bursar.model.kind import Kind, Shape
from bursar.model.policy import OrderTerm, Policies
from bursar.model.tenant import FlavorResource
from bursar.model.units import MILLI

PLANS_KEPT: Final = 4_096
"""Plans of shapes that may come back; more than this, and those without jobs are dropped."""

LINES_PARKED: Final = 1_024
"""Lines without jobs whose kind may come back; more than this, and all of them are dropped."""

ALIKE_KEPT: Final = 4_096
"""Sightings of the very same parts of a spec; more than this, and all of them are dropped."""

Parts = tuple[tuple[TaskGroup, ...], Constraints, Checkpoint]
"""What of a spec its shape is made of, beside numbers."""


class LineBook:
    """Lines by kind, and plans by shape. ``active`` holds the lines in which somebody waits.

    ``steered`` holds the jobs, waiting or running, whose deadlines say where they run.
    """

    def __init__(self, pools: Mapping[str, PoolState], fleet: Fleet, policies: Policies) -> None:
        self.lines: dict[LineKey, KindLine] = {}
        self.active: dict[LineKey, KindLine] = {}
        self._pools = pools
        self._policies = policies
        self._order = policies.order
        self._unknown_run_ms = policies.backfill.unknown_run_time_ms
        self._limited: Collection[FlavorResource] = ()
        self._plans: dict[Shape, ShapePlan] = {}
        self._plans_made = 0
        self._parked: dict[LineKey, KindLine] = {}
        self._alike: dict[tuple[int, int, int, bool, int | None, str], tuple[ShapePlan, Parts]] = {}
        self._room_keys: dict[Shape, int] = {}
        self._places: dict[int, Places] = {}
        learns = OrderTerm.LEAST_EXPECTED in policies.order.terms
        self._experience = Experience() if learns else None
        self._peers: dict[tuple[str, tuple[str, ...], int], Peers] = {}
        self._spot_pools = sum(spec.market is Market.SPOT for spec in fleet.pools)
        self._run_times_matter = policies.backfill.reservations > 0 or any(
            spec.market is Market.SPOT or spec.interruptions_per_million_hours
            for spec in fleet.pools
        )
        self._alike_in: dict[int, dict[str, int]] = {}
        self.steered: dict[str, JobRecord] = {}

    def match_again(self, limited: Collection[FlavorResource]) -> None:
        """Pools, prices or quotas changed: what shapes can run on must be worked out again."""
        self._limited = limited
        for plan in self._plans.values():
            plan.match(tuple(self._pools.values()), limited)

    def enlist(self, record: JobRecord) -> None:
        """Find the job's line and its place in it."""
        spec = record.spec
        run_ms = planned_run_ms(spec)
        steered = self._spot_pools and is_steered(spec)
        if steered:
            self.steered[record.id] = record
        line = record.line = self._line_for(record, run_ms, record.id if steered else "")
        line.members += 1
        record.run_ms = run_ms or self._unknown_run_ms
        if self._experience is not None:
            peers = self._peers_of(record, self._experience)
            record.prospect = self._experience.prospect(peers)
        record.rank = rank_of(record, self._order, record.submitted_at_ms)

    def delist(self, record: JobRecord) -> None:
        """Undo ``enlist``: a line goes with its last job; plans are kept while they are few."""
        line = record.line
        if self._experience is not None and record.state is JobState.SUCCEEDED:
            gpu_milli = line.plan.gpu_milli
            if gpu_milli:
                run_ms = record.attained_gpu_ms * MILLI // gpu_milli
                self._experience.add(self._peers_of(record, self._experience), run_ms)
        line.members -= 1
        self.steered.pop(record.id, None)
        if not line.members:
            del self.lines[line.key]
            plan = line.plan
            plan.lines -= 1
            line.clear()
            if len(self._parked) >= LINES_PARKED:
                self._parked.clear()
            self._parked[line.key] = line
            if not plan.lines and len(self._plans) > PLANS_KEPT:
                self._forget_plans()

    def _peers_of(self, record: JobRecord, experience: Experience) -> Peers:
        """Those who are like a job, found by the three things that make them so."""
        spec = record.spec
        key = (spec.queue, spec.alike, record.line.plan.gpu_milli)
        peers = self._peers.get(key)
        if peers is None:
            peers = self._peers[key] = experience.peers(likenesses_of(record))
        return peers

    def _forget_plans(self) -> None:
        self._plans = {shape: plan for shape, plan in self._plans.items() if plan.lines}
        used = {plan.room_key for plan in self._plans.values()}
        self._room_keys = {s: key for s, key in self._room_keys.items() if key in used}
        self._places = {key: places for key, places in self._places.items() if key in used}
        self._alike_in = {key: alike for key, alike in self._alike_in.items() if key in used}
        self._parked.clear()
        self._alike.clear()

    def _room_key(self, shape: Shape) -> int:
        """One number for shapes that differ in run time or deadline alone: they need the same room."""
        return self._room_keys.setdefault(replace(shape, run_ms=None, own=""), self._plans_made)

    def _line_for(self, record: JobRecord, run_ms: int | None, own: str) -> KindLine:
        """The line of a job's kind, made when the first such job arrives."""
        spec, priority = record.spec, record.priority
        plan = self._plan_for(spec, run_ms if self._run_times_matter else None, own)
        key = (spec.queue, priority, plan.id)
        line = self.lines.get(key)
        if line is None:
            line = self._parked.pop(key, None)
            if line is None:
                kind = Kind(queue=spec.queue, priority=priority, shape=plan.shape)
                line = KindLine(kind, plan, self.active)
            self.lines[key] = line
            plan.lines += 1
        return line

    def plan_of(self, spec: JobSpec) -> ShapePlan:
        """What a job could run on, before anybody submits it."""
        return self._plan_for(spec, planned_run_ms(spec) if self._run_times_matter else None, "")

    def _plan_for(self, spec: JobSpec, run_ms: int | None, own: str) -> ShapePlan:
        """The plan of a spec's shape.

        Many specs share their parts (all jobs of a trace that ask for the same, all jobs of an array),
        and to see that two parts are one object is far cheaper than to compare all that is in them.
        The parts seen are kept beside the plan: while they are, no other object can have their place.
        """
        groups, constraints, checkpoint = spec.groups, spec.constraints, spec.checkpoint
        sight = (id(groups), id(constraints), id(checkpoint), spec.preemptible, run_ms, own)
        known = self._alike.get(sight)
        if known is not None:
            return known[0]
        shape = Shape(
            groups=groups,
            constraints=constraints,
            checkpoint=checkpoint,
            preemptible=spec.preemptible,
            run_ms=run_ms,
            own=own,
        )
        plan = self._plans.get(shape)
        if plan is None:
            plan = ShapePlan(self._plans_made, shape, self._unknown_run_ms)
            self._plans_made += 1
            plan.room_key = room_key = self._room_key(shape)
            plan.places = self._places.setdefault(room_key, plan.places)
            if self._spot_pools > 1 and self._policies.spot.spread_percent:
                plan.alike_in = self._alike_in.setdefault(room_key, {})
            plan.match(tuple(self._pools.values()), self._limited)
            self._plans[shape] = plan
        if len(self._alike) >= ALIKE_KEPT:
            self._alike.clear()
        self._alike[sight] = plan, (groups, constraints, checkpoint)
        return plan


def likenesses_of(record: JobRecord) -> tuple[Likeness, ...]:
    """Whom a job is like, widest first: anyone, its queue, those it names, those of its size too."""
    spec = record.spec
    found: list[Likeness] = [(), (spec.queue,)]
    for part in spec.alike:
        found.append((*found[-1], part))
    found.append((*found[-1], record.line.plan.gpu_milli))
    return tuple(found)

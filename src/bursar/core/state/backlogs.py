"""All backlogs of a fleet, and the placement plan of each job shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from bursar.core.deadline.eligibility import is_deadline_managed
from bursar.core.nodes.pool import PoolState
from bursar.core.placement.pool_fit import AllocationCache, ShapePlan, planned_run_ms
from bursar.core.state.job_record import Backlog, BacklogKey, JobRecord, rank_of
from bursar.core.state.run_time_model import RunTimeModel, SimilarityKey, SimilarJobs
from bursar.model.fleet.fleet import Fleet, Market
from bursar.model.jobs.job import (
    CheckpointPolicy,
    Constraints,
    JobKind,
    JobShape,
    JobSpec,
    JobState,
    TaskGroup,
)
from bursar.model.tenants.policy import OrderTerm, Policies
from bursar.model.tenants.tenant import FlavorResource
from bursar.model.units import MILLI

MOST_PLANS: Final = 4_096
"""Cached plans; above this number, those without jobs are dropped."""

PARKED_BACKLOGS: Final = 1_024
"""Cached backlogs without jobs; above this number, all are dropped."""

MOST_IDENTITIES: Final = 4_096
"""Cached lookups by object identity; above this number, all are dropped."""

Parts = tuple[tuple[TaskGroup, ...], Constraints, CheckpointPolicy]
"""The components of a spec that make up its shape, numbers aside."""

Identity = tuple[int, int, int, bool, int | None, str]
"""The addresses of a spec's components, with the numbers of its shape."""


class Backlogs:
    """Backlogs by job kind, and plans by shape; ``active`` are those with waiting jobs.

    ``deadline_jobs`` are the jobs, waiting or running, whose deadlines decide where they run.
    """

    def __init__(self, pools: Mapping[str, PoolState], fleet: Fleet, policies: Policies) -> None:
        self.by_key: dict[BacklogKey, Backlog] = {}
        self.active: dict[BacklogKey, Backlog] = {}
        self._pools = pools
        self._policies = policies
        self._order = policies.order
        self._unknown_run_ms = policies.backfill.unknown_run_time_ms
        self._limited: Collection[FlavorResource] = ()
        self._plans: dict[JobShape, ShapePlan] = {}
        self._plans_made = 0
        self._parked: dict[BacklogKey, Backlog] = {}
        self._plans_by_identity: dict[Identity, tuple[ShapePlan, Parts]] = {}
        self._capacity_keys: dict[JobShape, int] = {}
        self._allocations: dict[int, AllocationCache] = {}
        learns = OrderTerm.LEAST_EXPECTED in policies.order.terms
        self._run_times = RunTimeModel() if learns else None
        self._similar_jobs: dict[tuple[str, tuple[str, ...], int], SimilarJobs] = {}
        self._spot_pools = sum(spec.market is Market.SPOT for spec in fleet.pools)
        self._run_times_matter = policies.backfill.reservations > 0 or any(
            spec.market is Market.SPOT or spec.interruptions_per_million_hours
            for spec in fleet.pools
        )
        self._similar_by_pool: dict[int, dict[str, int]] = {}
        self.deadline_jobs: dict[str, JobRecord] = {}

    def match_plans(self, limited: Collection[FlavorResource]) -> None:
        """Recompute what shapes can run on after pools, prices or quotas changed."""
        self._limited = limited
        for plan in self._plans.values():
            plan.match(tuple(self._pools.values()), limited)

    def add_job(self, record: JobRecord) -> None:
        """Set the job's backlog and its rank in it."""
        spec = record.spec
        run_ms = planned_run_ms(spec)
        is_managed = self._spot_pools and is_deadline_managed(spec)
        if is_managed:
            self.deadline_jobs[record.id] = record
        backlog = record.backlog = self._backlog_for(
            record, run_ms, record.id if is_managed else ""
        )
        backlog.members += 1
        record.run_ms = run_ms or self._unknown_run_ms
        if self._run_times is not None:
            similar_jobs = self._similar_to(record, self._run_times)
            record.run_time_estimate = self._run_times.estimate(similar_jobs)
        record.rank = rank_of(record, self._order, record.submitted_at_ms)

    def remove_job(self, record: JobRecord) -> None:
        """Undo ``add_job``; a backlog goes with its last job, plans are cached while they are few."""
        backlog = record.backlog
        if self._run_times is not None and record.state is JobState.SUCCEEDED:
            gpu_milli = backlog.plan.gpu_milli
            if gpu_milli:
                run_ms = record.attained_gpu_ms * MILLI // gpu_milli
                self._run_times.add(self._similar_to(record, self._run_times), run_ms)
        backlog.members -= 1
        self.deadline_jobs.pop(record.id, None)
        if not backlog.members:
            del self.by_key[backlog.key]
            plan = backlog.plan
            plan.backlog_count -= 1
            backlog.clear()
            if len(self._parked) >= PARKED_BACKLOGS:
                self._parked.clear()
            self._parked[backlog.key] = backlog
            if not plan.backlog_count and len(self._plans) > MOST_PLANS:
                self._forget_plans()

    def _similar_to(self, record: JobRecord, run_times: RunTimeModel) -> SimilarJobs:
        """The jobs similar to a job: of its queue, labels and size."""
        spec = record.spec
        key = (spec.queue, spec.similarity_keys, record.backlog.plan.gpu_milli)
        similar_jobs = self._similar_jobs.get(key)
        if similar_jobs is None:
            similar_jobs = self._similar_jobs[key] = run_times.similar_jobs(similarity_keys(record))
        return similar_jobs

    def _forget_plans(self) -> None:
        self._plans = {shape: plan for shape, plan in self._plans.items() if plan.backlog_count}
        used = {plan.capacity_key for plan in self._plans.values()}
        self._capacity_keys = {s: key for s, key in self._capacity_keys.items() if key in used}
        self._allocations = {
            key: places for key, places in self._allocations.items() if key in used
        }
        self._similar_by_pool = {
            key: counts for key, counts in self._similar_by_pool.items() if key in used
        }
        self._parked.clear()
        self._plans_by_identity.clear()

    def _capacity_key(self, shape: JobShape) -> int:
        """One number for shapes that differ in run time or deadline alone: they need the same capacity."""
        return self._capacity_keys.setdefault(replace(shape, run_ms=None, own=""), self._plans_made)

    def _backlog_for(self, record: JobRecord, run_ms: int | None, own: str) -> Backlog:
        """The backlog of a job's kind, made when the first such job arrives."""
        spec, priority = record.spec, record.priority
        plan = self._plan_for(spec, run_ms if self._run_times_matter else None, own)
        key = (spec.queue, priority, plan.id)
        backlog = self.by_key.get(key)
        if backlog is None:
            backlog = self._parked.pop(key, None)
            if backlog is None:
                kind = JobKind(queue=spec.queue, priority=priority, shape=plan.shape)
                backlog = Backlog(kind, plan, self.active)
            self.by_key[key] = backlog
            plan.backlog_count += 1
        return backlog

    def plan_of(self, spec: JobSpec) -> ShapePlan:
        """What a job could run on, before it is submitted."""
        return self._plan_for(spec, planned_run_ms(spec) if self._run_times_matter else None, "")

    def _plan_for(self, spec: JobSpec, run_ms: int | None, own: str) -> ShapePlan:
        """The plan of a spec's shape.

        Many specs share their components (all jobs of an array, all jobs of a trace with equal requests), and
        comparing object identities is far cheaper than comparing values. The components are stored with
        the plan, so no other object can get their address meanwhile.
        """
        groups, constraints, checkpoint = spec.groups, spec.constraints, spec.checkpoint
        identity = (id(groups), id(constraints), id(checkpoint), spec.preemptible, run_ms, own)
        known = self._plans_by_identity.get(identity)
        if known is not None:
            return known[0]
        shape = JobShape(
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
            plan.capacity_key = capacity_key = self._capacity_key(shape)
            plan.allocations = self._allocations.setdefault(capacity_key, plan.allocations)
            if self._spot_pools > 1 and self._policies.spot.spread_percent:
                plan.similar_by_pool = self._similar_by_pool.setdefault(capacity_key, {})
            plan.match(tuple(self._pools.values()), self._limited)
            self._plans[shape] = plan
        if len(self._plans_by_identity) >= MOST_IDENTITIES:
            self._plans_by_identity.clear()
        self._plans_by_identity[identity] = plan, (groups, constraints, checkpoint)
        return plan


def similarity_keys(record: JobRecord) -> tuple[SimilarityKey, ...]:
    """The groups of similar jobs, widest first: all, its queue, its labels, its size too."""
    spec = record.spec
    keys: list[SimilarityKey] = [(), (spec.queue,)]
    for part in spec.similarity_keys:
        keys.append((*keys[-1], part))
    keys.append((*keys[-1], record.backlog.plan.gpu_milli))
    return tuple(keys)

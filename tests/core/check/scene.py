"""Small fleets with hand-written decisions, valid and invalid, for the tests of the checker."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from bursar.model.decision import (
    ClaimPlacement,
    Decision,
    Hold,
    PartitionGpu,
    PreemptionReason,
    PreemptJob,
    ReleaseClaim,
    StartJob,
    StopJob,
    StopReason,
)
from bursar.model.event import AttemptAssigned, AttemptStarted, AttemptStopping, PlacementClaimed
from bursar.model.fleet.fleet import Fleet
from bursar.model.fleet.gpu import Layout, MigInstance
from bursar.model.jobs.attempt import Placement, ShareUse, SliceUse, Task
from bursar.model.jobs.job import JobSpec
from bursar.model.reason import NeverFits, Reason
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import HOUR_MS, MILLI
from tests.support import SchedulerHarness, fleet_of, pool, state_of
from tests.support.fleets import PoolPlan, PoolTerms
from tests.support.state_audit import check_thoroughly

USD = 1_000_000
SOME_REASON = (NeverFits(problem="no GPU of this model"),)


def a_pool(name: str = "a", **terms: Unpack[PoolTerms]) -> PoolPlan:
    """Two nodes with 4 GPUs, 32 CPUs, 64 GiB and 10 GiB of disk, at $4 an hour."""
    defaults: PoolTerms = {"gpus": 4, "model": "a100-40gb", "cpu": 32, "memory_gib": 64}
    defaults.update({"disk_gib": 10, "usd_per_node_hour": 4.0})
    defaults.update(terms)
    return pool(name, nodes=2, **defaults)


def layout_of(text: str) -> Layout:
    """Parses a MIG layout such as ``1g.5gb@0 2g.10gb@2``."""
    parts = [part.split("@") for part in text.split()]
    return tuple(MigInstance(profile=profile, start=int(start)) for profile, start in parts)


def slice_of(gpu: int, text: str) -> SliceUse:
    return SliceUse(gpu=gpu, instance=layout_of(text)[0])


def share_of(gpu: int, percent: int, memory_mib: int = 0) -> ShareUse:
    return ShareUse(gpu=gpu, percent=percent, memory_mib=memory_mib)


def at(node: str, *gpus: int, group: str = "main", count: int = 1) -> Task:
    """A number of tasks of a group on a node, with these whole GPUs."""
    return Task(group=group, node=node, count=count, gpus=gpus)


class Scene:
    """A fleet in which a GPU costs $1 an hour, and decisions for it.

    The default fleet is pool ``a``: nodes ``a-0001`` and ``a-0002`` with 4 GPUs each.
    """

    def __init__(
        self,
        fleet: Fleet | None = None,
        tenants: tuple[Tenant, ...] | None = None,
        policies: Policies | None = None,
    ) -> None:
        if fleet is None:
            fleet = fleet_of(a_pool())
        self.harness = SchedulerHarness(state_of(fleet, tenants, policies))
        self.state = self.harness.state
        self.decisions: list[Decision] = []

    def faults(self) -> list[str]:
        """Texts of the faults that the checker finds in the decisions and in the state."""
        faults = check_thoroughly(self.state, self.decisions, self.harness.now_ms)
        return [str(fault) for fault in faults]

    # -- earlier events --------------------------------------------------------------------------

    def wait(self, *specs: JobSpec) -> Scene:
        self.harness.submit(*specs)
        return self

    def run(self, spec: JobSpec, *tasks: Task, hours: float = 1) -> Scene:
        """Adds a job that has run there for some hours."""
        (job_id,) = self.harness.submit(spec)
        placement = self.placement(job_id, *tasks)
        now_ms = self.harness.now_ms
        self.harness.apply(
            AttemptAssigned(at_ms=now_ms, job_id=job_id, attempt=1, placement=placement)
        )
        self.harness.apply(AttemptStarted(at_ms=now_ms, job_id=job_id, attempt=1))
        self.harness.advance(round(hours * HOUR_MS))
        return self

    def stopping(self, job_id: str) -> Scene:
        self.harness.apply(AttemptStopping(at_ms=self.harness.now_ms, job_id=job_id, attempt=1))
        return self

    def claimed(self, job_id: str, *tasks: Task, victims: tuple[str, ...] = ()) -> Scene:
        """Adds a claim from an earlier cycle."""
        placement = self.placement(job_id, *tasks)
        now_ms = self.harness.now_ms
        self.harness.apply(
            PlacementClaimed(at_ms=now_ms, job_id=job_id, placement=placement, victims=victims)
        )
        return self

    # -- decisions -------------------------------------------------------------------------------

    def start(self, job_id: str, *tasks: Task, attempt: int = 1, pool: str = "a") -> Scene:
        placement = self.placement(job_id, *tasks, pool=pool)
        self.decisions.append(StartJob(job_id=job_id, attempt=attempt, placement=placement))
        return self

    def claim(self, job_id: str, *tasks: Task, victims: tuple[str, ...] = ()) -> Scene:
        placement = self.placement(job_id, *tasks)
        self.decisions.append(ClaimPlacement(job_id=job_id, placement=placement, victims=victims))
        return self

    def release(self, job_id: str) -> Scene:
        self.decisions.append(ReleaseClaim(job_id=job_id))
        return self

    def preempt(self, job_id: str, on_behalf_of: str, attempt: int = 1) -> Scene:
        self.decisions.append(
            PreemptJob(
                job_id=job_id,
                attempt=attempt,
                on_behalf_of=on_behalf_of,
                reason=PreemptionReason.RECLAIM,
                lost_micro_usd=0,
            )
        )
        return self

    def stop(self, job_id: str, reason: StopReason = StopReason.CANCELLED) -> Scene:
        self.decisions.append(StopJob(job_id=job_id, attempt=1, reason=reason))
        return self

    def partition(self, node: str, gpu: int, text: str) -> Scene:
        self.decisions.append(PartitionGpu(node=node, gpu=gpu, layout=layout_of(text)))
        return self

    def hold(
        self,
        head: str,
        waiting: int = 1,
        jobs: tuple[str, ...] = (),
        reasons: tuple[Reason, ...] = SOME_REASON,
    ) -> Scene:
        kind = self.state.jobs[head].backlog.kind
        self.decisions.append(
            Hold(kind=kind, head=head, waiting=waiting, reasons=reasons, jobs=jobs)
        )
        return self

    def as_kind_of(self, job_id: str) -> Scene:
        """Changes the kind of the last hold to another job's kind."""
        last = self.decisions.pop()
        assert isinstance(last, Hold)
        self.decisions.append(replace(last, kind=self.state.jobs[job_id].backlog.kind))
        return self

    def change_placement(self, **changes: object) -> Scene:
        """Changes fields of the last decision's placement."""
        last = self.decisions.pop()
        assert isinstance(last, StartJob | ClaimPlacement)
        placement = replace(last.placement, **changes)  # type: ignore[arg-type]
        self.decisions.append(replace(last, placement=placement))
        return self

    def placement(self, job_id: str, *tasks: Task, pool: str = "a") -> Placement:
        """A placement at $1 a GPU; a task's unset amounts are filled in from its group."""
        record = self.state.jobs.get(job_id)
        groups = {} if record is None else {one.name: one for one in record.spec.groups}
        placed = []
        price = 0
        for task in tasks:
            wanted = groups.get(task.group)
            if wanted is not None:
                task = replace(
                    task,
                    cpu_milli=task.cpu_milli or wanted.cpu_milli * task.count,
                    memory_mib=task.memory_mib or wanted.memory_mib * task.count,
                    disk_mib=task.disk_mib or wanted.disk_mib * task.count,
                )
            milli = MILLI * len(task.gpus) + 10 * sum(share.percent for share in task.shares)
            milli += sum(SLICE_MILLI[use.instance.profile] for use in task.slices)
            price += max(USD * milli // MILLI, USD * task.cpu_milli // 8_000)
            placed.append(task)
        spec = self.state.pools[pool].spec if pool in self.state.pools else None
        flavor = "" if spec is None else spec.flavor
        return Placement(pool=pool, flavor=flavor, tasks=tuple(placed), micro_usd_per_hour=price)


SLICE_MILLI = {"1g.5gb": 142, "2g.10gb": 285, "3g.20gb": 500, "4g.20gb": 571, "9g.99gb": 0}

"""Builds small event logs by hand, with times in hours."""

from __future__ import annotations

from typing import TypeVar

from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.entry import LedgerEntry
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.ledger.node_fraction import SliceRule
from bursar.model import event as ev
from bursar.model.fleet.fleet import Fleet
from bursar.model.fleet.gpu import MigInstance
from bursar.model.jobs.attempt import Placement, ShareUse, SliceUse, Task
from bursar.model.jobs.job import JobSpec, TaskGroup
from bursar.model.tenants.policy import Policies
from bursar.model.units import GIB_MIB, HOUR_MS, MILLI
from tests.support import fleet_of, pool
from tests.support.fleets import PoolPlan

AnEvent = TypeVar("AnEvent", bound=ev.LoggedEvent)
A100 = pool("a100", gpus=8, cpu=96, memory_gib=1024, usd_per_node_hour=16.0)
NODE = "a100-0001"


def ms(hours: float) -> int:
    return round(hours * HOUR_MS)


def gpus(*numbers: int, node: str = NODE, cpu: float = 0, memory_gib: int = 0) -> Task:
    return Task(
        group="main",
        node=node,
        count=1,
        gpus=numbers,
        cpu_milli=round(cpu * MILLI),
        memory_mib=memory_gib * GIB_MIB,
    )


def slice_of(gpu: int, profile: str, start: int) -> Task:
    use = SliceUse(gpu=gpu, instance=MigInstance(profile=profile, start=start))
    return Task(group="main", node=NODE, count=1, slices=(use,))


def share_of(gpu: int, percent: int) -> Task:
    use = ShareUse(gpu=gpu, percent=percent, memory_mib=0)
    return Task(group="main", node=NODE, count=1, shares=(use,))


class Scene:
    """A log under construction. Times are hours; events are in the order in which they are added."""

    def __init__(self, *plans: PoolPlan, at: float = 0) -> None:
        self.fleet = fleet_of(*(plans or (A100,)))
        self.log: list[ev.LoggedEvent] = []
        self.declare(self.fleet, at)

    def declare(self, fleet: Fleet, at: float) -> Scene:
        event = ev.FleetDeclared(at_ms=ms(at), fleet=fleet, tenants=(), policies=Policies())
        return self.add(event)

    def add(self, event: ev.LoggedEvent) -> Scene:
        self.log.append(event)
        return self

    def submit(self, job_id: str, at: float = 0, queue: str = "red", retries: int = 0) -> Scene:
        spec = JobSpec(name=job_id, queue=queue, groups=(TaskGroup(),), retries=retries)
        return self.add(ev.JobSubmitted(at_ms=ms(at), job_id=job_id, spec=spec, priority=0))

    def assign(self, job_id: str, *tasks: Task, at: float = 0, attempt: int = 1) -> Scene:
        event = ev.AttemptAssigned(
            at_ms=ms(at), job_id=job_id, attempt=attempt, placement=self.place(*tasks)
        )
        return self.add(event)

    def run(self, job_id: str, *tasks: Task, at: float = 0, queue: str = "red") -> Scene:
        """Submit and assign at once."""
        return self.submit(job_id, at, queue).assign(job_id, *tasks, at=at)

    def claim(self, job_id: str, *tasks: Task, at: float) -> Scene:
        event = ev.PlacementClaimed(
            at_ms=ms(at), job_id=job_id, placement=self.place(*tasks), victims=()
        )
        return self.add(event)

    def end(self, kind: type[ev.AttemptEnded], job_id: str, at: float, attempt: int = 1) -> Scene:
        return self.add(kind(at_ms=ms(at), job_id=job_id, attempt=attempt))

    def succeed(self, job_id: str, at: float) -> Scene:
        return self.end(ev.AttemptSucceeded, job_id, at)

    def save(self, job_id: str, at: float, attempt: int = 1) -> Scene:
        return self.add(ev.CheckpointSaved(at_ms=ms(at), job_id=job_id, attempt=attempt))

    def price(self, usd: float, at: float, pool_name: str = "a100") -> Scene:
        event = ev.PriceChanged(
            at_ms=ms(at), pool=pool_name, node_micro_usd_per_hour=round(usd * 1_000_000)
        )
        return self.add(event)

    def place(self, *tasks: Task) -> Placement:
        """A placement in the pool of the first task; tasks in another pool are its anchors."""
        pool_of_node = {node.id: node.pool for node in self.fleet.nodes}
        pool_name = pool_of_node.get(tasks[0].node, "a100")
        flavor = {one.name: one.flavor for one in self.fleet.pools}[pool_name]
        same = tuple(task for task in tasks if pool_of_node.get(task.node, "a100") == pool_name)
        others = tuple(task for task in tasks if task not in same)
        return Placement(
            pool=pool_name,
            flavor=flavor,
            tasks=same,
            micro_usd_per_hour=0,
            anchors=self.place(*others) if others else None,
        )

    # -- reading ---------------------------------------------------------------------------------

    def ledger(
        self, until: float, rule: SliceRule = SliceRule.MAX
    ) -> tuple[Ledger, list[LedgerEntry]]:
        entries: list[LedgerEntry] = []
        ledger = Ledger(rule, also=entries.append)
        for event in self.log:
            ledger.apply(event)
        ledger.meter.close(ms(until))
        assert ledger.books.trial_balance() == 0
        return ledger, entries

    def books(self, until: float, rule: SliceRule = SliceRule.MAX) -> Books:
        return self.ledger(until, rule)[0].books

    def spent(self, until: float, rule: SliceRule = SliceRule.MAX) -> dict[str, int]:
        """Micro-dollars of each account with a positive balance, so without capacity."""
        balances = self.books(until, rule).balances()
        return {name: usd for name, usd in balances.items() if usd > 0}

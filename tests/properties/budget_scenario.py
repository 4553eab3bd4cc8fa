"""Simulates a fleet under hard budgets: jobs are admitted, run, and stop at their cost limits.

Engines are as slow as allowed: a start takes the whole start allowance, a stop the whole grace period.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from bursar.accounting.budgets.budget import BudgetStatus
from bursar.accounting.ledger.ledger import Ledger
from bursar.control.live.budget_admission import STARTING_MS, BudgetAdmission
from bursar.control.live.live_ledger import LiveLedger
from bursar.core.cycle import decide
from bursar.core.order_events import events_for
from bursar.core.state.attempt_limits import paid_grace_ms
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model import event as ev
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import Constraints, JobSpec, JobState
from bursar.model.tenants.policy import Policies, PreemptionLimits
from bursar.model.tenants.tenant import (
    Budget,
    BudgetAction,
    BudgetPeriod,
    BudgetStep,
    Enforcement,
    Tenant,
)
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, USD_MICRO
from tests.support import fleet_of, job, mig_job, mps_job, pool, queue, submission, tenant
from tests.support.state_audit import require_thoroughly_valid

BEGAN_MS = 20_000 * DAY_MS + 21 * HOUR_MS
"""Three hours before midnight, so that days end within a history."""
POOLS = (pool("dear", gpus=4, usd_per_node_hour=31.37), pool("spot", market=Market.SPOT, gpus=8))
OWNED = "a100-80gb/owned"
GRACE_SECONDS = 30


EARLY_STEPS = tuple(
    BudgetStep(at_percent=percent, action=action)
    for percent, action in zip((5, 10, 20, 40, 60), BudgetAction, strict=True)
)
"""All five actions, at thresholds low enough to be reached."""
Report = (
    ev.AttemptStarted
    | ev.CheckpointSaved
    | ev.AttemptSucceeded
    | ev.AttemptFailed
    | ev.AttemptPreempted
)


@dataclass(frozen=True, slots=True)
class Action:
    """One action. ``number`` selects the object, or an amount."""

    verb: str
    number: int = 0
    spec: JobSpec | None = None


@st.composite
def job_specs(draw: st.DrawFn) -> JobSpec:
    """A job with whole GPUs, a slice or a share, and a limit of time, cost or both."""
    request = draw(st.sampled_from(["whole", "gang", "slice", "share"]))
    spec = {
        "whole": lambda: job(
            "whole", gpus=draw(st.integers(1, 4)), memory_gib=draw(st.integers(1, 900))
        ),
        "gang": lambda: job(
            "gang", gpus=1, tasks=draw(st.integers(2, 4)), cpu=draw(st.integers(1, 40))
        ),
        "slice": lambda: mig_job("slice", "3g.40gb"),
        "share": lambda: mps_job("share", draw(st.integers(1, 100))),
    }[request]()
    minutes = draw(st.none() | st.integers(1, 300))
    cents = draw(st.none() | st.integers(100, 3_000))
    return replace(
        spec,
        queue=draw(st.sampled_from(["vision", "language"])),
        max_run_ms=None if minutes is None else minutes * MINUTE_MS,
        max_cost_micro_usd=None if cents is None else cents * USD_MICRO // 100,
        retries=draw(st.integers(0, 2)),
        preemptible=draw(st.booleans()),
        constraints=Constraints(markets=(Market.OWNED, Market.SPOT)),
    )


def actions() -> st.SearchStrategy[list[Action]]:
    verbs = st.sampled_from(["finish", "fail", "cancel", "save", "lose node", "price"])
    return st.lists(
        st.builds(Action, st.just("submit"), st.just(0), job_specs())
        | st.builds(Action, st.just("wait"), st.integers(1, 100))
        | st.builds(Action, verbs, st.integers(0, 9)),
        min_size=6,
        max_size=40,
    )


def tenants(lab_usd: int, vision_usd: int | None, period: BudgetPeriod) -> tuple[Tenant, ...]:
    """A lab with two queues and a hard budget; one queue may have its own smaller budget."""
    hard = Budget(amount_micro_usd=lab_usd * USD_MICRO, period=period, enforcement=Enforcement.HARD)
    vision = queue("vision", "lab", {OWNED: 2})
    if vision_usd is not None:
        vision = replace(vision, budget=replace(hard, amount_micro_usd=vision_usd * USD_MICRO))
    return (replace(tenant("lab"), budget=hard), vision, queue("language", "lab", {OWNED: 2}))


@dataclass
class BudgetScenario:
    """Updates state, ledger and log together, like a control plane."""

    tenants: tuple[Tenant, ...]
    now_ms: int = BEGAN_MS
    log: list[ev.LoggedEvent] = field(default_factory=list)
    rejected: int = 0

    def __post_init__(self) -> None:
        limits = PreemptionLimits(minimum_run_ms=0)
        policies = Policies(preemption=limits)
        fleet = fleet_of(*POOLS)
        self.state = FleetState(fleet, self.tenants, policies)
        self.books = LiveLedger()
        declared = ev.FleetDeclared(
            at_ms=self.now_ms, fleet=fleet, tenants=self.tenants, policies=policies
        )
        self.log.append(declared)
        self.books.apply(declared)
        self.ends: dict[str, int] = {}
        self.starts: dict[str, int] = {}

    @property
    def ledger(self) -> Ledger:
        return self.books.ledger

    def statuses(self) -> list[BudgetStatus]:
        return self.books.budgets.statuses(self.now_ms)

    def apply(self, event: ev.Event) -> None:
        self.state.apply(event)
        self.books.apply(event)
        self.log.append(event)

    # -- applying actions ---------------------------------------------------------------------------------

    def apply_action(self, action: Action) -> None:
        match action.verb:
            case "submit":
                assert action.spec is not None
                self.submit(action.spec)
            case "wait":
                self.wait(action.number * 7 * MINUTE_MS // 3)
            case "lose node":
                nodes = sorted(self.state.pool_of_node)
                if len(nodes) > 1:
                    node = nodes[action.number % len(nodes)]
                    self.apply(ev.NodeLost(at_ms=self.now_ms, node=node))
            case "price":
                self.change_price(action.number)
            case _:
                self._apply_to_job(action)
        self.settle()

    def change_price(self, number: int) -> None:
        """Sets a pool's price to between 85 % and 130 % of its initial price."""
        first = fleet_of(*POOLS).pools[number % 2]
        price = first.node_micro_usd_per_hour * (85 + 5 * number) // 100
        self.apply(
            ev.PriceChanged(at_ms=self.now_ms, pool=first.name, node_micro_usd_per_hour=price)
        )

    def submit(self, spec: JobSpec) -> None:
        """Submits three equal jobs in one batch."""
        admission = BudgetAdmission(self.books.budgets, self.state, self.now_ms)
        admitted: list[ev.JobSubmitted] = []
        for number in range(3):
            submitted: tuple[ev.JobSubmitted, ...] = (
                submission(self.state, spec, f"j{len(self.log)}-{number}", self.now_ms),
            )
            try:
                submitted = admission.with_holds(submitted, GRACE_SECONDS)
                admission.hold(submitted)
            except UserError:
                self.rejected += 1
                continue
            admitted += submitted
        for event in admitted:
            self.apply(event)

    def _apply_to_job(self, action: Action) -> None:
        live = self.state.live()
        jobs = live if action.verb in ("finish", "fail", "save") else list(self.state.jobs.values())
        if not jobs:
            return
        record = sorted(jobs, key=lambda one: one.id)[action.number % len(jobs)]
        match action.verb:
            case "cancel":
                self.apply(ev.JobCancelled(at_ms=self.now_ms, job_id=record.id))
            case "save":
                self.report(ev.CheckpointSaved, record)
            case "finish":
                self.report(ev.AttemptSucceeded, record)
            case _:
                failed = not record.stop_requested
                self.report(ev.AttemptFailed if failed else ev.AttemptPreempted, record)

    def report(self, kind: type[Report], record: JobRecord) -> None:
        """An engine reports on an attempt."""
        self.apply(kind(at_ms=self.now_ms, job_id=record.id, attempt=record.attempt))

    def settle(self) -> None:
        """One run of the writer: check budgets, decide, validate, apply."""
        for change in self.books.budgets.check(self.state.budgets.levels, self.now_ms):
            self.apply(change)
        for _ in range(3):
            decisions = decide(self.state, self.now_ms)
            require_thoroughly_valid(self.state, decisions, self.now_ms)
            for decision in decisions:
                for event in events_for(decision, self.now_ms):
                    self.apply(event)
        for record in self.state.live():
            key = f"{record.id}/{record.attempt}"
            if record.state is JobState.STARTING:
                self.starts.setdefault(key, self.now_ms + STARTING_MS)
            if record.stop_requested:
                grace_ms, paid_ms = GRACE_SECONDS * SECOND_MS, paid_grace_ms(record, self.now_ms)
                grace_ms = grace_ms if paid_ms is None else min(grace_ms, paid_ms)
                self.ends.setdefault(key, self.now_ms + grace_ms)

    def wait(self, duration_ms: int) -> None:
        """Advances the time; everything due happens at its time."""
        until_ms = self.now_ms + duration_ms
        while self.now_ms < until_ms:
            self.now_ms = min(until_ms, *self._due_times())
            self._engines_report()
            self.settle()

    def _due_times(self) -> list[int]:
        due = [at_ms for at_ms, _ in self.state.limits[:1]]
        due += [*self.ends.values(), *self.starts.values(), self.books.budgets.next_check_ms]
        return [max(self.now_ms + 1, one) for one in due]

    def _engines_report(self) -> None:
        for record in self.state.live():
            key = f"{record.id}/{record.attempt}"
            if self.starts.get(key, self.now_ms + 1) <= self.now_ms:
                del self.starts[key]
                if record.state is JobState.STARTING:
                    self.report(ev.AttemptStarted, record)
            if self.ends.get(key, self.now_ms + 1) <= self.now_ms:
                self.report(ev.AttemptPreempted, record)
        live = {f"{one.id}/{one.attempt}" for one in self.state.live()}
        self.ends = {key: at_ms for key, at_ms in self.ends.items() if key in live}
        self.starts = {key: at_ms for key, at_ms in self.starts.items() if key in live}

    def end_everything(self) -> None:
        """Cancels all jobs and waits for them to end."""
        for job_id in sorted(self.state.jobs):
            if job_id in self.state.jobs:
                self.apply(ev.JobCancelled(at_ms=self.now_ms, job_id=job_id))
        self.settle()
        self.wait(HOUR_MS)

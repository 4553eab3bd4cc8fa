"""Random sequences of steps in a random world, as values that shrink and print well.

A step selects its object by a number ("the 3rd live job"), modulo the number of objects. So any list of
steps is valid in any world; a step without an object does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.admit import check_fleet, submissions
from bursar.core.cycle import decide
from bursar.core.order_events import events_for
from bursar.core.state.fleet_state import FleetState
from bursar.model import event as ev
from bursar.model.decision import Decision
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Node
from bursar.model.jobs.job import JobSpec, JobState
from bursar.model.tenants.tenant import Quota
from bursar.model.units import HOUR_MS, MILLI, MINUTE_MS
from tests.properties.worlds import (
    PREEMPTION_LIMITS,
    World,
    brief,
    contested_worlds,
    known_models,
    mixed_worlds,
    specs,
    worlds,
)
from tests.support import SchedulerHarness

Item = TypeVar("Item")
ADVANCES_MS = (0, 1, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 7 * HOUR_MS)
JOB_VERBS = (
    *("start", "start all", "finish", "fail", "save", "cancel", "stopped", "taken", "stale"),
    *("resume", "warned"),
)
NODE_VERBS = ("lose", "drain", "restore", "add", "foreign", "no foreign", "notice", "rebalance")
CONFIG_VERBS = ("quota", "weight", "move", "price")
PLAIN_STEPS = ("submit", "cycle", "submit", "cycle", "advance", "stopped", "finish", "start all")


@dataclass(frozen=True, slots=True)
class Step:
    """One step; ``spec`` is the job of a submission."""

    verb: str
    number: int = 0
    spec: JobSpec | None = None

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:
        printer.text(brief(self))


@st.composite
def steps(draw: st.DrawFn, world: World, verbs: Sequence[str]) -> Step:
    verb = draw(st.sampled_from(verbs))
    number = draw(st.integers(0, 11))
    return Step(verb, number, draw(specs(world)) if verb == "submit" else None)


ANY_WORLD = st.one_of(worlds(), contested_worlds(PREEMPTION_LIMITS), mixed_worlds())


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A world and the steps to run in it."""

    world: World
    steps: tuple[Step, ...]

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:
        printer.text(f"{brief(self.world)}\n" + "\n".join(brief(step) for step in self.steps))


@st.composite
def scripts(
    draw: st.DrawFn,
    world_strategy: st.SearchStrategy[World] = ANY_WORLD,
    verbs: Sequence[str] = (*PLAIN_STEPS, *PLAIN_STEPS, *JOB_VERBS, *NODE_VERBS, *CONFIG_VERBS),
) -> Script:
    """Some submissions, then random steps."""
    world = draw(world_strategy)
    first = draw(st.lists(specs(world), min_size=6, max_size=12))
    then = draw(st.lists(steps(world, verbs), min_size=12, max_size=30))
    opening: list[Step] = []
    for number, spec in enumerate(first):
        opening.append(Step("submit", 0, spec))
        if number % 3 == 2:
            opening += [Step("cycle"), Step("start all")]
    return Script(world=world, steps=(*opening, *then, Step("cycle")))


TROUBLE = (
    *("submit", "cycle", "stopped", "foreign", "cycle", "quota", "drain", "lose", "restore"),
    "notice",
)
ANY_SCRIPT = st.one_of(
    scripts(), scripts(contested_worlds(PREEMPTION_LIMITS), (*PLAIN_STEPS, *TROUBLE, *TROUBLE))
)
"""Half of them test reservations whose capacity is then lost."""

Watcher = Callable[["StepRunner", tuple[Decision, ...]], None]


class StepRunner:
    """Runs steps; ``watch`` gets the decisions of each cycle before they are applied."""

    def __init__(self, world: World, watch: Watcher | None = None) -> None:
        self.world = world
        self.harness = SchedulerHarness(fresh_state(world))
        self.watch = watch
        self.submitted: list[str] = []
        self._new_nodes = count(1)
        self._new_jobs = count(1)

    @property
    def state(self) -> FleetState:
        return self.harness.state

    @property
    def now_ms(self) -> int:
        return self.harness.now_ms

    def run(self, script: Script) -> StepRunner:
        for step in script.steps:
            self.run_step(step)
        return self

    def run_step(self, step: Step) -> None:
        if step.verb == "submit" and step.spec is not None:
            self.submit(step.spec, step.number)
        elif step.verb == "cycle":
            self.cycle()
        elif step.verb == "advance":
            self.harness.advance(ADVANCES_MS[step.number % len(ADVANCES_MS)])
        elif step.verb in JOB_VERBS:
            self._step_job(step)
        elif step.verb in NODE_VERBS:
            self._step_node(step)
        else:
            self._step_config(step)

    def cycle(self) -> tuple[Decision, ...]:
        """Decides, passes the decisions to the watcher, and applies them."""
        decisions = decide(self.state, self.now_ms)
        if self.watch is not None:
            self.watch(self, decisions)
        for decision in decisions:
            for event in events_for(decision, self.now_ms):
                self.harness.apply(event)
        return decisions

    def submit(self, spec: JobSpec, number: int = 0) -> None:
        """Submits through admission; rejected jobs are ignored. Every fourth number depends on a job."""
        job_id = f"j{next(self._new_jobs):02d}"
        if number % 4 == 3 and self.submitted:
            spec = replace(spec, depends_on=(_nth(self.submitted, number // 4),))
        with suppress(UserError):
            request = AdmissionRequest(
                spec=spec,
                job_id=job_id,
                at_ms=self.now_ms,
                state=self.state,
                known_models=known_models(),
            )
            for event in submissions(request):
                self.harness.apply(event)
                self.submitted.append(event.job_id)

    # -- jobs ------------------------------------------------------------------------------------

    def _step_job(self, step: Step) -> None:
        if step.verb == "start all":
            self.harness.start_all()
            return
        if step.verb == "cancel":
            if self.state.jobs:
                self.harness.cancel(_nth(sorted(self.state.jobs), step.number))
            return
        job_ids = self._jobs_for(step.verb)
        if job_ids:
            self._report(step.verb, _nth(job_ids, step.number))

    def _jobs_for(self, verb: str) -> list[str]:
        """The jobs for which an engine could report this."""
        live = self.state.live()
        match verb:
            case "start":
                live = [job for job in live if job.started_at_ms is None]
            case "save":
                live = [job for job in live if job.state is not JobState.STARTING]
            case "stopped":
                live = [job for job in live if job.stop_requested]
            case "taken":
                live = [job for job in live if not job.stop_requested]
        return [job.id for job in live]

    def _report(self, verb: str, job_id: str) -> None:
        match verb:
            case "start":
                self.harness.start(job_id)
            case "finish":
                self.harness.finish(job_id)
            case "fail":
                self.harness.fail(job_id)
            case "save":
                self.harness.save(job_id)
            case "stopped" | "taken":
                self.harness.preempted(job_id)
            case "resume":
                attempt = self.state.jobs[job_id].attempt
                self.harness.apply(
                    ev.AttemptResumed(at_ms=self.now_ms, job_id=job_id, attempt=attempt, step=7)
                )
            case "warned":
                self.harness.apply(self._notice("", 3, job_id))
            case "stale":
                attempt = self.state.jobs[job_id].attempt - 1
                late = ev.AttemptSucceeded(at_ms=self.now_ms, job_id=job_id, attempt=attempt)
                self.harness.apply(late)

    # -- nodes -----------------------------------------------------------------------------------

    def _step_node(self, step: Step) -> None:
        if step.verb == "add":
            self._add_node(step.number)
            return
        nodes = sorted(self.state.pool_of_node)
        if not nodes:
            return
        node, at_ms = _nth(nodes, step.number), self.now_ms
        match step.verb:
            case "lose":
                self.harness.apply(ev.NodeLost(at_ms=at_ms, node=node))
            case "drain":
                self.harness.apply(ev.NodeDrained(at_ms=at_ms, node=node))
            case "restore":
                self.harness.apply(ev.NodeRestored(at_ms=at_ms, node=node))
            case "notice":
                self.harness.apply(self._notice(node, step.number))
            case "rebalance":
                notice = self._notice(node, step.number)
                self.harness.apply(replace(notice, kind=ev.NoticeKind.REBALANCE, ends_at_ms=None))
            case "foreign":
                gpus = len(self.state.node(node).devices)
                held = tuple(gpu for gpu in range(gpus) if step.number >> gpu & 1)
                cpu_milli = step.number % 3 * MILLI
                self.harness.apply(
                    ev.ForeignUsageSeen(at_ms=at_ms, node=node, gpus=held, cpu_milli=cpu_milli)
                )
            case _:
                self.harness.apply(ev.ForeignUsageSeen(at_ms=at_ms, node=node))

    def _notice(self, node: str, number: int, job_id: str | None = None) -> ev.SpotNotice:
        attempt = None if job_id is None else self.state.jobs[job_id].attempt
        return ev.SpotNotice(
            at_ms=self.now_ms,
            node=node,
            source="play",
            kind=ev.NoticeKind.TERMINATE,
            ends_at_ms=None if number == 11 else self.now_ms + number * 10_000,
            job_id=job_id,
            attempt=attempt,
        )

    def _add_node(self, number: int) -> None:
        template = _nth(self.world.fleet.nodes, number)
        node = Node(
            id=f"{template.pool}-new{next(self._new_nodes)}",
            pool=template.pool,
            labels=template.labels,
        )
        self.harness.apply(ev.NodeAdded(at_ms=self.now_ms, node=node))

    # -- prices, quotas and tenants --------------------------------------------------------------

    def _step_config(self, step: Step) -> None:
        if step.verb == "price":
            name = _nth(sorted(self.state.pools), step.number)
            price = step.number * 1_000_000
            event = ev.PriceChanged(at_ms=self.now_ms, pool=name, node_micro_usd_per_hour=price)
            self.harness.apply(event)
            return
        tenant = self.state.tenants[_nth(sorted(self.state.tenants), step.number)]
        if step.verb == "quota":
            nominal = (0, 500, 2_000)[step.number % 3]
            changed = replace(
                tenant,
                quotas={
                    key: Quota(
                        nominal=quota.nominal * nominal // 1_000,
                        borrowing_limit=quota.borrowing_limit,
                        lending_limit=None if step.number % 2 else quota.lending_limit,
                    )
                    for key, quota in tenant.quotas.items()
                },
            )
        elif step.verb == "weight":
            changed = replace(tenant, weight=float(step.number % 3))
        else:
            parents = (*sorted(self.state.tenants), None)
            changed = replace(tenant, parent=_nth(parents, step.number * 7))
        with suppress(UserError):
            tree = {**self.state.tenants, changed.name: changed}
            check_fleet(self.world.fleet, tree.values(), self.state.policies)
            self.harness.apply(ev.TenantChanged(at_ms=self.now_ms, tenant=changed))


def fresh_state(world: World) -> FleetState:
    return FleetState(world.fleet, world.tenants, world.policies)


def _nth(items: Sequence[Item], number: int) -> Item:
    return items[number % len(items)]

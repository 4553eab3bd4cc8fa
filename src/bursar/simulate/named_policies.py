"""Policies by name: what ``--policy`` takes, and what each name means in the core's own choices.

An order is a recipe: how jobs are sorted, whether a blocked head stops its queue, what is told of run
times, and the backfill and preemption that usually go with it. Each of these can be changed beside it.
Whether a queue is strict belongs to its tenant, so a choice is policies and a change of tenants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bursar.model.errors import UserError
from bursar.model.suggestion import suggest_among
from bursar.model.tenants.policy import (
    OrderPolicy,
    OrderTerm,
    PlacementPolicy,
    Policies,
    PreemptionLimits,
    SharePolicy,
    VictimOrder,
    WithinQueue,
)
from bursar.model.tenants.tenant import Queueing, Tenant
from bursar.model.units import SECOND_MS

FLEET = "fleet"
"""The name of the fleet file's own policies."""


class RunTimeSource(StrEnum):
    """What the scheduler is told of run times."""

    WRITTEN = "written"
    ORACLE = "oracle"
    LEARNED = "learned"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """A policy as it was named. What is None of ``queueing`` and ``within_queue`` stays the fleet's."""

    name: str
    policies: Policies
    queueing: Queueing | None = None
    within_queue: WithinQueue | None = None
    estimates: RunTimeSource = RunTimeSource.WRITTEN

    def tenants(self, tenants: Iterable[Tenant]) -> tuple[Tenant, ...]:
        """The same tenants, with what the policy stands for in their queues."""
        return tuple(self._settled(one) if one.is_queue else one for one in tenants)

    def _settled(self, queue: Tenant) -> Tenant:
        if self.queueing is not None:
            queue = replace(queue, queueing=self.queueing)
        if self.within_queue is not None:
            terms = replace(queue.preemption, within_queue=self.within_queue)
            queue = replace(queue, preemption=terms)
        return queue


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPreset:
    """What an order means, and what usually goes with it."""

    title: str
    order: OrderPolicy
    queueing: Queueing | None = None
    within_queue: WithinQueue | None = None
    estimates: RunTimeSource = RunTimeSource.WRITTEN
    backfill: str = "none"
    preemption: str = "none"
    limits: PreemptionLimits = field(default_factory=PreemptionLimits)


def _sorted_by(*terms: OrderTerm) -> OrderPolicy:
    """All jobs in one order, whoever's they are."""
    return OrderPolicy(share=SharePolicy.NONE, terms=terms)


TIME_SHARING = PreemptionLimits(preemptions_per_job=1_000_000, searches_per_cycle=64)
"""Where jobs take turns, how often one is stopped says nothing; how long it runs at least does."""

TURNS_PER_JOB = 16
"""Enough for the few jobs that yield again and again to those that need little; still an end to it."""

ORDERS: Mapping[str, PolicyPreset] = {
    "bursar": PolicyPreset(
        title="our default: fair tree, deadlines, least expected work by what was learned, EASY",
        order=OrderPolicy(),
        within_queue=WithinQueue.LATER_IN_ORDER,
        backfill="easy",
        preemption="latest-first",
        limits=PreemptionLimits(preemptions_per_job=TURNS_PER_JOB),
    ),
    "fifo-strict": PolicyPreset(
        title="first come, first served; nobody passes a blocked job",
        order=_sorted_by(OrderTerm.SUBMITTED),
        queueing=Queueing.STRICT,
    ),
    "fifo": PolicyPreset(
        title="first come, first served; what fits may pass",
        order=_sorted_by(OrderTerm.SUBMITTED),
        queueing=Queueing.BEST_EFFORT,
    ),
    "sjf": PolicyPreset(
        title="shortest job first by true run times; nobody passes a blocked job",
        order=_sorted_by(OrderTerm.SHORTEST),
        queueing=Queueing.STRICT,
        estimates=RunTimeSource.ORACLE,
    ),
    "sjf-skip": PolicyPreset(
        title="shortest job first by true run times; what fits may pass",
        order=_sorted_by(OrderTerm.SHORTEST),
        queueing=Queueing.BEST_EFFORT,
        estimates=RunTimeSource.ORACLE,
    ),
    "service-first": PolicyPreset(
        title="least GPU time first by true run times; nobody passes a blocked job",
        order=_sorted_by(OrderTerm.LEAST_WORK),
        queueing=Queueing.STRICT,
        estimates=RunTimeSource.ORACLE,
    ),
    "qssf": PolicyPreset(
        title="least GPU time first by run times learned from earlier jobs; nobody passes",
        order=_sorted_by(OrderTerm.LEAST_WORK),
        queueing=Queueing.STRICT,
        estimates=RunTimeSource.LEARNED,
    ),
    "srtf": PolicyPreset(
        title="shortest remaining time first by true run times; stops whoever comes later",
        order=_sorted_by(OrderTerm.SHORTEST_REMAINING),
        queueing=Queueing.BEST_EFFORT,
        within_queue=WithinQueue.LATER_IN_ORDER,
        estimates=RunTimeSource.ORACLE,
        preemption="least-lost-work",
        limits=TIME_SHARING,
    ),
    "las": PolicyPreset(
        title="least attained GPU time first, in levels; stops whoever comes later",
        order=_sorted_by(OrderTerm.LEAST_ATTAINED),
        queueing=Queueing.BEST_EFFORT,
        within_queue=WithinQueue.LATER_IN_ORDER,
        estimates=RunTimeSource.NONE,
        preemption="least-lost-work",
        limits=TIME_SHARING,
    ),
    "dominant-share": PolicyPreset(
        title="the team with the least dominant share first, then by age",
        order=OrderPolicy(share=SharePolicy.DOMINANT_SHARE, terms=(OrderTerm.SUBMITTED,)),
        backfill="easy",
    ),
    "fair-tree": PolicyPreset(
        title="the team furthest below its share first, past usage fading, then by age",
        order=OrderPolicy(share=SharePolicy.FAIR_TREE, terms=(OrderTerm.SUBMITTED,)),
        backfill="easy",
    ),
}

PLACEMENTS: Mapping[str, PlacementPolicy] = {one.value: one for one in PlacementPolicy}

EASY = "easy"
CONSERVATIVE = "conservative"
BACKFILLS = ("none", EASY, f"{CONSERVATIVE}:K")

PREEMPTIONS: Mapping[str, VictimOrder | None] = {
    "none": None,
    "newest": VictimOrder.NEWEST_FIRST,
    "least-lost-work": VictimOrder.LEAST_LOST_WORK,
    "latest-first": VictimOrder.LATEST_FIRST,
}


# -- reading ---------------------------------------------------------------------------------------


def choose_policy(text: str, fleet: Policies) -> PolicyChoice:
    """The policy that a text names: ``sjf``, or ``order=sjf,backfill=easy,preemption=none``.

    Without an order the fleet's own is changed; without anything it is taken as it is.
    """
    name = text.strip()
    parts = _parts(name)
    choice = PolicyChoice(name=name or FLEET, policies=fleet)
    if "order" in parts and parts["order"] != FLEET:
        choice = _cook(choice, _recipe(parts["order"]))
    for key, value in parts.items():
        if key != "order":
            choice = CHANGES[key](choice, value)
    return choice


def _parts(text: str) -> dict[str, str]:
    """What stands for each key; a word alone is an order."""
    found: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        key, equals, value = (one.strip() for one in part.partition("="))
        if not equals:
            key, value = "order", key
        if key not in KEYS:
            raise _unknown(key, KEYS, "a part of a policy", "unknown-policy-key")
        if key in found:
            raise UserError(
                f"The policy {text!r} says {key} twice.",
                fix="Say it once.",
                code="duplicate-policy-key",
            )
        found[key] = value
    return found


def _recipe(name: str) -> PolicyPreset:
    if name not in ORDERS:
        raise _unknown(name, (*ORDERS, FLEET), "an order", "unknown-policy")
    return ORDERS[name]


def _cook(choice: PolicyChoice, recipe: PolicyPreset) -> PolicyChoice:
    """The recipe instead of the fleet's policies; what priorities are called stays the fleet's."""
    usual = Policies(
        order=recipe.order,
        preemption=recipe.limits,
        priority_classes=choice.policies.priority_classes,
    )
    made = replace(
        choice,
        policies=usual,
        queueing=recipe.queueing,
        within_queue=recipe.within_queue,
        estimates=recipe.estimates,
    )
    return _with_preemption(_with_backfill(made, recipe.backfill), recipe.preemption)


# -- the parts of a policy -------------------------------------------------------------------------


def _with_placement(choice: PolicyChoice, value: str) -> PolicyChoice:
    if value not in PLACEMENTS:
        raise _unknown(value, PLACEMENTS, "a placement", "unknown-policy")
    return replace(choice, policies=replace(choice.policies, placement=PLACEMENTS[value]))


def _with_placement_seed(choice: PolicyChoice, value: str) -> PolicyChoice:
    if not (value.isascii() and value.isdigit()):
        raise UserError(
            f"placement-seed={value!r} is not a whole number of 0 or more.",
            fix="Write one, for example 'placement-seed=7'.",
            code="unknown-policy",
        )
    return replace(choice, policies=replace(choice.policies, placement_seed=int(value)))


def _with_backfill(choice: PolicyChoice, value: str) -> PolicyChoice:
    policies = choice.policies
    changed = replace(policies.backfill, reservations=_reservations(value))
    return replace(choice, policies=replace(policies, backfill=changed))


def _reservations(value: str) -> int:
    """How many blocked kinds of job get a promised start."""
    kind, colon, count = value.partition(":")
    if kind == CONSERVATIVE:
        if count.isascii() and count.isdigit() and int(count) > 0:
            return int(count)
        raise UserError(
            f"backfill={value!r} does not say how many jobs get a promised start.",
            fix=f"Write a number of 1 or more after a colon, for example '{CONSERVATIVE}:16'.",
            code="unknown-policy",
        )
    if colon or kind not in ("none", EASY):
        raise _unknown(value, BACKFILLS, "a backfill", "unknown-policy")
    return 1 if kind == EASY else 0


def _with_preemption(choice: PolicyChoice, value: str) -> PolicyChoice:
    if value not in PREEMPTIONS:
        raise _unknown(value, PREEMPTIONS, "a preemption", "unknown-policy")
    victims = PREEMPTIONS[value]
    limits = choice.policies.preemption
    if victims is None:
        changed = replace(limits, searches_per_cycle=0)
    else:
        searches = limits.searches_per_cycle or PreemptionLimits().searches_per_cycle
        changed = replace(limits, victim_order=victims, searches_per_cycle=searches)
    return replace(choice, policies=replace(choice.policies, preemption=changed))


def _with_estimates(choice: PolicyChoice, value: str) -> PolicyChoice:
    known = [str(one) for one in RunTimeSource]
    if value not in known:
        raise _unknown(value, known, "a kind of estimates", "unknown-policy")
    return replace(choice, estimates=RunTimeSource(value))


def _with_minimum_run(choice: PolicyChoice, value: str) -> PolicyChoice:
    if not (value.isascii() and value.isdigit()):
        raise UserError(
            f"minimum-run={value!r} is not a number of seconds.",
            fix="Write whole seconds, for example 'minimum-run=60'.",
            code="unknown-policy",
        )
    limits = replace(choice.policies.preemption, minimum_run_ms=int(value) * SECOND_MS)
    return replace(choice, policies=replace(choice.policies, preemption=limits))


CHANGES: Mapping[str, Callable[[PolicyChoice, str], PolicyChoice]] = {
    "placement": _with_placement,
    "placement-seed": _with_placement_seed,
    "backfill": _with_backfill,
    "preemption": _with_preemption,
    "estimates": _with_estimates,
    "minimum-run": _with_minimum_run,
}
KEYS = ("order", *CHANGES)


def _unknown(name: str, known: Iterable[str], what: str, code: str) -> UserError:
    return UserError(
        f"{name!r} is not {what} we know.",
        fix=suggest_among(name, known),
        code=code,
    )

"""Policies by name, as ``--policy`` takes them, and the settings of the core that each name selects.

An order is a preset: how jobs are sorted, whether a blocked head blocks its queue, which run times the
scheduler knows, and the usual backfill and preemption. Each of these can be overridden. Whether a queue
is strict is a setting of its tenant, so a choice consists of policies and a change of tenants.
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
"""The name of the policies in the fleet file."""


class RunTimeSource(StrEnum):
    """Where the scheduler's run time estimates come from."""

    WRITTEN = "written"
    ORACLE = "oracle"
    LEARNED = "learned"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """A named policy. Where ``queueing`` or ``within_queue`` is None, the fleet's setting applies."""

    name: str
    policies: Policies
    queueing: Queueing | None = None
    within_queue: WithinQueue | None = None
    estimates: RunTimeSource = RunTimeSource.WRITTEN

    def tenants(self, tenants: Iterable[Tenant]) -> tuple[Tenant, ...]:
        """The same tenants, with the policy's settings in their queues."""
        return tuple(self._apply_to(one) if one.is_queue else one for one in tenants)

    def _apply_to(self, queue: Tenant) -> Tenant:
        if self.queueing is not None:
            queue = replace(queue, queueing=self.queueing)
        if self.within_queue is not None:
            terms = replace(queue.preemption, within_queue=self.within_queue)
            queue = replace(queue, preemption=terms)
        return queue


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPreset:
    """The settings that the name of an order selects."""

    title: str
    order: OrderPolicy
    queueing: Queueing | None = None
    within_queue: WithinQueue | None = None
    estimates: RunTimeSource = RunTimeSource.WRITTEN
    backfill: str = "none"
    preemption: str = "none"
    limits: PreemptionLimits = field(default_factory=PreemptionLimits)


def _sorted_by(*terms: OrderTerm) -> OrderPolicy:
    """One order for all jobs, without shares of tenants."""
    return OrderPolicy(share=SharePolicy.NONE, terms=terms)


TIME_SHARING = PreemptionLimits(preemptions_per_job=1_000_000, searches_per_cycle=64)
"""Under time sharing the minimum run time limits preemptions, not their number."""

TURNS_PER_JOB = 16
"""Enough for jobs that yield to many small ones, and still a limit."""

ORDERS: Mapping[str, PolicyPreset] = {
    "bursar": PolicyPreset(
        title="the default: fair tree, deadlines, least expected work by learned run times, EASY",
        order=OrderPolicy(),
        within_queue=WithinQueue.LATER_IN_ORDER,
        backfill="easy",
        preemption="latest-first",
        limits=PreemptionLimits(preemptions_per_job=TURNS_PER_JOB),
    ),
    "fifo-strict": PolicyPreset(
        title="first come, first served; no job passes a blocked one",
        order=_sorted_by(OrderTerm.SUBMITTED),
        queueing=Queueing.STRICT,
    ),
    "fifo": PolicyPreset(
        title="first come, first served; jobs that fit may pass",
        order=_sorted_by(OrderTerm.SUBMITTED),
        queueing=Queueing.BEST_EFFORT,
    ),
    "sjf": PolicyPreset(
        title="shortest job first by true run times; no job passes a blocked one",
        order=_sorted_by(OrderTerm.SHORTEST),
        queueing=Queueing.STRICT,
        estimates=RunTimeSource.ORACLE,
    ),
    "sjf-skip": PolicyPreset(
        title="shortest job first by true run times; jobs that fit may pass",
        order=_sorted_by(OrderTerm.SHORTEST),
        queueing=Queueing.BEST_EFFORT,
        estimates=RunTimeSource.ORACLE,
    ),
    "service-first": PolicyPreset(
        title="least GPU time first by true run times; no job passes a blocked one",
        order=_sorted_by(OrderTerm.LEAST_WORK),
        queueing=Queueing.STRICT,
        estimates=RunTimeSource.ORACLE,
    ),
    "qssf": PolicyPreset(
        title="least GPU time first by run times learned from earlier jobs; no job passes",
        order=_sorted_by(OrderTerm.LEAST_WORK),
        queueing=Queueing.STRICT,
        estimates=RunTimeSource.LEARNED,
    ),
    "srtf": PolicyPreset(
        title="shortest remaining time first by true run times; preempts later jobs",
        order=_sorted_by(OrderTerm.SHORTEST_REMAINING),
        queueing=Queueing.BEST_EFFORT,
        within_queue=WithinQueue.LATER_IN_ORDER,
        estimates=RunTimeSource.ORACLE,
        preemption="least-lost-work",
        limits=TIME_SHARING,
    ),
    "las": PolicyPreset(
        title="least attained GPU time first, in levels; preempts later jobs",
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
        title="the team furthest below its share of decayed usage first, then by age",
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


# -- parsing ---------------------------------------------------------------------------------------


def choose_policy(text: str, fleet: Policies) -> PolicyChoice:
    """Parses the text of a policy: ``sjf``, or ``order=sjf,backfill=easy,preemption=none``.

    Without an order, the other keys change the fleet's own policies.
    """
    name = text.strip()
    values = _values_by_key(name)
    choice = PolicyChoice(name=name or FLEET, policies=fleet)
    if "order" in values and values["order"] != FLEET:
        choice = _apply_preset(choice, values["order"])
    for key, value in values.items():
        if key != "order":
            choice = CHANGES[key](choice, value)
    return choice


def _values_by_key(text: str) -> dict[str, str]:
    """The value of each key; a word without a key is an order."""
    values: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        key, equals, value = (one.strip() for one in part.partition("="))
        if not equals:
            key, value = "order", key
        if key not in KEYS:
            raise _unknown(key, KEYS, "a key of a policy", "unknown-policy-key")
        if key in values:
            raise UserError(
                f"The policy {text!r} sets {key} twice.",
                fix="Set it once.",
                code="duplicate-policy-key",
            )
        values[key] = value
    return values


def _apply_preset(choice: PolicyChoice, name: str) -> PolicyChoice:
    """Replaces the fleet's policies by a preset; priority classes stay the fleet's."""
    if name not in ORDERS:
        raise _unknown(name, (*ORDERS, FLEET), "an order", "unknown-policy")
    preset = ORDERS[name]
    policies = Policies(
        order=preset.order,
        preemption=preset.limits,
        priority_classes=choice.policies.priority_classes,
    )
    choice = replace(
        choice,
        policies=policies,
        queueing=preset.queueing,
        within_queue=preset.within_queue,
        estimates=preset.estimates,
    )
    return _with_preemption(_with_backfill(choice, preset.backfill), preset.preemption)


# -- the keys of a policy --------------------------------------------------------------------------


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
    """How many blocked job kinds get a reservation."""
    kind, colon, count = value.partition(":")
    if kind == CONSERVATIVE:
        if count.isascii() and count.isdigit() and int(count) > 0:
            return int(count)
        raise UserError(
            f"backfill={value!r} lacks the number of jobs that get a reserved start.",
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
        raise _unknown(value, known, "a source of estimates", "unknown-policy")
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
        f"{name!r} is not {what}.",
        fix=suggest_among(name, known),
        code=code,
    )

"""Policies by name, as ``--policy`` takes them, and the settings of the core that each name selects.

The name of an order is a preset: how jobs are sorted, whether a blocked head blocks its queue, which run
times the scheduler knows, and the usual backfill and preemption. Each of these can be overridden. Whether
a queue is strict is a setting of its tenant, so a choice consists of policies and a change of tenants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from bursar.model.errors import UserError
from bursar.model.suggestion import suggest_among
from bursar.model.tenants.policy import (
    BackfillPolicy,
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

    name: str = ""
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


NO_PREEMPTION = PreemptionLimits(searches_per_cycle=0)

TIME_SHARING = PreemptionLimits(
    victim_order=VictimOrder.LEAST_LOST_WORK, preemptions_per_job=1_000_000, searches_per_cycle=64
)
"""Under time sharing the minimum run time limits preemptions, not their number."""

TURNS_PER_JOB = 16
"""Enough for jobs that yield to many small ones, and still a limit."""


def _policies(
    order: OrderPolicy, *, reservations: int = 0, preemption: PreemptionLimits = NO_PREEMPTION
) -> Policies:
    backfill = BackfillPolicy(reservations=reservations)
    return Policies(order=order, backfill=backfill, preemption=preemption)


def _sorted_by(
    term: OrderTerm, queueing: Queueing, estimates: RunTimeSource = RunTimeSource.WRITTEN
) -> PolicyChoice:
    """One order for all jobs, without shares of tenants; in a strict queue no job passes a blocked one."""
    order = OrderPolicy(share=SharePolicy.NONE, terms=(term,))
    return PolicyChoice(policies=_policies(order), queueing=queueing, estimates=estimates)


def _time_sharing(term: OrderTerm, estimates: RunTimeSource) -> PolicyChoice:
    """One order for all jobs, in which each preempts later ones."""
    choice = _sorted_by(term, Queueing.BEST_EFFORT, estimates)
    policies = replace(choice.policies, preemption=TIME_SHARING)
    return replace(choice, policies=policies, within_queue=WithinQueue.LATER_IN_ORDER)


def _shared(share: SharePolicy) -> PolicyChoice:
    """The team that is furthest behind first, then the oldest job."""
    order = OrderPolicy(share=share, terms=(OrderTerm.SUBMITTED,))
    return PolicyChoice(policies=_policies(order, reservations=1))


ORDERS: Mapping[str, PolicyChoice] = {
    # The default: fair tree, deadlines, least expected work by learned run times, EASY.
    "bursar": PolicyChoice(
        policies=_policies(
            OrderPolicy(),
            reservations=1,
            preemption=PreemptionLimits(
                victim_order=VictimOrder.LATEST_FIRST, preemptions_per_job=TURNS_PER_JOB
            ),
        ),
        within_queue=WithinQueue.LATER_IN_ORDER,
    ),
    "fifo-strict": _sorted_by(OrderTerm.SUBMITTED, Queueing.STRICT),
    "fifo": _sorted_by(OrderTerm.SUBMITTED, Queueing.BEST_EFFORT),
    "sjf": _sorted_by(OrderTerm.SHORTEST, Queueing.STRICT, RunTimeSource.ORACLE),
    "sjf-skip": _sorted_by(OrderTerm.SHORTEST, Queueing.BEST_EFFORT, RunTimeSource.ORACLE),
    "service-first": _sorted_by(OrderTerm.LEAST_WORK, Queueing.STRICT, RunTimeSource.ORACLE),
    "qssf": _sorted_by(OrderTerm.LEAST_WORK, Queueing.STRICT, RunTimeSource.LEARNED),
    "srtf": _time_sharing(OrderTerm.SHORTEST_REMAINING, RunTimeSource.ORACLE),
    "las": _time_sharing(OrderTerm.LEAST_ATTAINED, RunTimeSource.NONE),
    "dominant-share": _shared(SharePolicy.DOMINANT_SHARE),
    "fair-tree": _shared(SharePolicy.FAIR_TREE),
}
"""What each means is explained in docs/simulate.md."""

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


def choose_policy(
    text: str, fleet: Policies, estimates: RunTimeSource = RunTimeSource.WRITTEN
) -> PolicyChoice:
    """Parses the text of a policy: ``sjf``, or ``order=sjf,backfill=easy,preemption=none``.

    Without an order, the other keys change the fleet's own policies and keep the source of estimates.
    """
    name = text.strip()
    values = _values_by_key(name)
    choice = PolicyChoice(name=name or FLEET, policies=fleet, estimates=estimates)
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
    policies = replace(preset.policies, priority_classes=choice.policies.priority_classes)
    return replace(preset, name=choice.name, policies=policies)


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

"""Kueue's published cases on preemption: legality, and the victims of the three searches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bursar.core.preemption.candidates import (
    Candidate,
    PreemptionRules,
    Preemptor,
    may_preempt,
)
from bursar.core.preemption.preempt import choose_victims
from bursar.model.decision import PreemptionReason
from bursar.model.tenants.policy import (
    BorrowWhileReclaiming,
    FairStrategy,
    PreemptionPolicy,
    Reclaim,
    WithinQueue,
)
from bursar.model.tenants.tenant import FlavorResource
from tests.oracle.answer_quota import TREE_KEYS, keys, note_unread, queue_name, quota_tree
from tests.oracle.runner import Answer, Case

Fields = Mapping[str, Any]

WITHIN_QUEUE = {
    "unset": WithinQueue.UNSET,
    "Never": WithinQueue.NEVER,
    "LowerPriority": WithinQueue.LOWER_PRIORITY,
    "LowerOrNewerEqualPriority": WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY,
}
RECLAIM = {
    "unset": Reclaim.UNSET,
    "Never": Reclaim.NEVER,
    "LowerPriority": Reclaim.LOWER_PRIORITY,
    "Any": Reclaim.ANY,
}
STRATEGIES = {
    "LessThanOrEqualToFinalShare": FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,
    "LessThanInitialShare": FairStrategy.LESS_THAN_INITIAL_SHARE,
}
REASONS = {
    PreemptionReason.IN_QUEUE: "InClusterQueue",
    PreemptionReason.RECLAIM: "InCohortReclamation",
    PreemptionReason.RECLAIM_WHILE_BORROWING: "InCohortReclaimWhileBorrowing",
    PreemptionReason.FAIR_SHARE: "InCohortFairSharing",
}


_JOB_KEYS = keys("priority priority_boost created")
_WORKLOAD_KEYS = keys(
    # A workload's origin matters only if its queue shares by owner; no case here does.
    "name uid queue namespace local_queue reserved_at evicted",
    podsets=keys("name count min_count requests_per_pod"),
    assignment=keys("podset count", usage={"*": keys("flavor amount")}),
    **_JOB_KEYS,
)
_GATES = {
    "FairSharingPreemptWithinNominal": "quota_entitles",
    "FairSharingReevaluatePreemptionCandidates": "retry_first_rule",
}
"""The switches of Kueue's fair search, and ours for the same thing."""
_SEARCH_KEYS = {
    **TREE_KEYS,
    "incoming": _WORKLOAD_KEYS,
    "running": _WORKLOAD_KEYS,
    "proposed_assignment": keys("podset count", flavors={"*": keys("flavor mode")}),
    "fair_sharing": keys("strategies"),
    "gates": dict.fromkeys(_GATES),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    priority: int
    queued_at_ms: int


def policy_of(queue: Fields) -> PreemptionPolicy:
    """A queue's policy. An absent value means "Never"; "unset" does not."""
    given = queue.get("preemption") or {}
    borrow = given.get("borrow_within_cohort")
    permission = None
    if borrow is not None and borrow.get("policy") != "Never":
        permission = BorrowWhileReclaiming(max_priority=borrow.get("max_priority_threshold"))
    return PreemptionPolicy(
        within_queue=WITHIN_QUEUE[given.get("within_queue") or "Never"],
        reclaim=RECLAIM[given.get("reclaim_within_cohort") or "Never"],
        borrow_while_reclaiming=permission,
    )


def effective_priority(workload: Fields) -> int:
    """Kueue's boost is simply part of our priority."""
    return int(workload.get("priority", 0) + workload.get("priority_boost", 0))


def queued_at_ms(workload: Fields) -> int:
    """When it joined the queue; a workload without a time is older than all others."""
    created = workload.get("created")
    return -(2**62) if created is None else round(created * 1000)


def usage_of(workload: Fields) -> dict[FlavorResource, int]:
    """What a running workload holds, over all its task groups."""
    usage: dict[FlavorResource, int] = {}
    for group in workload.get("assignment") or ():
        for resource, held in (group.get("usage") or {}).items():
            fr = (held["flavor"], resource)
            usage[fr] = usage.get(fr, 0) + held["amount"]
    return usage


def _candidate(workload: Fields, candidate_id: str) -> Candidate:
    return Candidate(
        id=candidate_id,
        queue=queue_name(workload["queue"]),
        priority=effective_priority(workload),
        queued_at_ms=queued_at_ms(workload),
        started_at_ms=round((workload.get("reserved_at") or 0) * 1000),
        usage=usage_of(workload),
        stopping=bool(workload.get("evicted")),
    )


def _preemptor(given: Fields) -> Preemptor:
    """The request in the proposed flavors, and the flavor resources to preempt for."""
    incoming = given["incoming"]
    per_task = {group["name"]: group.get("requests_per_pod") or {} for group in incoming["podsets"]}
    requests: dict[FlavorResource, int] = {}
    contested: set[FlavorResource] = set()
    for group in given["proposed_assignment"]:
        for resource, flavor in group["flavors"].items():
            fr = (flavor["flavor"], resource)
            amount = per_task[group["podset"]].get(resource, 0) * group["count"]
            if resource == "pods" and resource not in per_task[group["podset"]]:
                amount = group["count"]
            requests[fr] = requests.get(fr, 0) + amount
            if flavor["mode"] == "Preempt":
                contested.add(fr)
    return Preemptor(
        id=incoming.get("uid") or incoming["name"],
        queue=queue_name(incoming["queue"]),
        priority=effective_priority(incoming),
        queued_at_ms=queued_at_ms(incoming),
        requests=requests,
        contested=frozenset(contested),
    )


def _identified(given: Fields, *, by_name: bool) -> Iterator[tuple[str, Fields]]:
    """Ids that break ties as published: the uid, else the name where so stated, else list order."""
    for index, workload in enumerate(given["running"]):
        yield workload.get("uid") or (workload["name"] if by_name else f"{index:06}"), workload


def answer_victims(case: Case, fixtures: dict[str, Any]) -> str | None:
    """The set of victims with their reasons; the tree must be unchanged."""
    given = case["input"]
    note_unread(given, _SEARCH_KEYS)
    note_unread(case["expect"], {"preempted": keys("workload reason")}, "expect")
    tree = quota_tree(given)
    fair = given.get("fair_sharing")
    workloads = dict(_identified(given, by_name=fair is not None))
    running: dict[str, list[Candidate]] = {}
    for candidate_id, workload in workloads.items():
        candidate = _candidate(workload, candidate_id)
        running.setdefault(candidate.queue, []).append(candidate)
        tree.add_usage(candidate.queue, candidate.usage)
    policies = {queue_name(queue["name"]): policy_of(queue) for queue in given["queues"]}
    before = _everything(tree)
    victims = choose_victims(tree, _preemptor(given), running, policies, _rules(given))
    if _everything(tree) != before:
        return "the search left the tree changed"
    ours = sorted((workloads[victim.id]["name"], REASONS[victim.reason]) for victim in victims)
    published = sorted((item["workload"], item["reason"]) for item in case["expect"]["preempted"])
    return None if ours == published else f"ours {ours}, published {published}"


def _rules(given: Fields) -> PreemptionRules:
    fair = given.get("fair_sharing")
    if fair is None:
        return PreemptionRules()
    names = fair.get("strategies") or list(STRATEGIES)
    switches = {_GATES[gate]: bool(on) for gate, on in (given.get("gates") or {}).items()}
    return PreemptionRules(fair_strategies=tuple(STRATEGIES[name] for name in names), **switches)


def _everything(tree: Any) -> list[tuple[str, FlavorResource, int]]:
    return [(name, fr, tree.usage(name, fr)) for name in tree.names() for fr in tree.declared(name)]


def answer_preemption_policy(case: Case, fixtures: dict[str, Any]) -> str | None:
    """Whether one job may preempt another under one policy value."""
    given = case["input"]
    note_unread(given, keys("policy", preemptor=_JOB_KEYS, candidate=_JOB_KEYS))
    rule = WITHIN_QUEUE.get(given["policy"]) or RECLAIM[given["policy"]]
    preemptor, candidate = (
        _Job(priority=effective_priority(job), queued_at_ms=queued_at_ms(job))
        for job in (given["preemptor"], given["candidate"])
    )
    ours = may_preempt(rule, preemptor, candidate)
    published = case["expect"]["allowed"]
    return None if ours == published else f"ours {ours}, published {published}"


FAMILIES: dict[str, Answer] = {
    "preemption_classical": answer_victims,
    "preemption_fair": answer_victims,
    "preemption_hierarchical": answer_victims,
    "preemption_policy": answer_preemption_policy,
}

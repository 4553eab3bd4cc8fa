"""Kueue's published cases on the quota tree, shares, borrowing and partial admission.

In Kueue a cohort may have the name of a queue, and an undeclared cohort exists without quota. Both are
converted here, because names are unique in our tree and every parent is declared.

All answers share :func:`unread`, which finds keys of a case that no answer reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bursar.core.quota.dominant_share import DominantShare, dominant_share
from bursar.core.quota.quota_tree import QuotaNode, QuotaTree
from bursar.core.start_job import TaskGroupRange, largest_fitting_counts
from bursar.model.tenants.tenant import FlavorResource, Quota
from tests.oracle.runner import UNREAD, Answer, Case

Fields = Mapping[str, Any]

INFINITE_SHARE = 2**63 - 1
"""How Kueue displays an infinite share."""

LIMITS = "nominal borrowing_limit lending_limit"

Known = Mapping[str, Any] | None
"""The keys an answer reads, nested like the case; ``*`` is any key, ``None`` anything below."""


def rounded(share: DominantShare) -> int:
    """The share as Kueue displays it."""
    return INFINITE_SHARE if share.infinite else math.ceil(share.weighted)


def keys(names: str, **nested: Known) -> dict[str, Any]:
    """Keys with plain values, and keys with nested keys."""
    return {**dict.fromkeys(names.split()), **nested}


def note_unread(given: Any, known: Known, at: str = "input") -> None:
    """Records a key of the case that no answer reads: the first thing to check on a difference."""
    found = unread(given, known, at)
    if found is not None:
        UNREAD.append(found)


def unread(given: Any, known: Known, at: str = "input") -> str | None:
    """The first key that no answer reads."""
    if known is None or not given:
        return None
    if isinstance(given, list):
        return _first(unread(each, known, at) for each in given)
    if not isinstance(given, dict):
        return None
    for key, value in given.items():
        if key not in known and "*" not in known:
            return f"{at} has {key!r}, which we do not read"
        found = unread(value, known.get(key, known.get("*")), f"{at}.{key}")
        if found is not None:
            return found
    return None


_GROUPS = keys("covered", flavors=keys("flavor", quotas={"*": keys(LIMITS)}))
_COHORT_KEYS = keys("name parent weight", resource_groups=_GROUPS)
_QUEUE_KEYS = keys(
    # How a queue chooses flavors, heads and namespaces is decided before any of these cases begins.
    "name cohort weight fungibility strategy namespace_selector",
    preemption=keys(
        "within_queue reclaim_within_cohort",
        borrow_within_cohort=keys("policy max_priority_threshold"),
    ),
    resource_groups=_GROUPS,
)
TREE_KEYS = keys("", queues=_QUEUE_KEYS, cohorts=_COHORT_KEYS)
"""What :func:`quota_tree` and the queues' policies read."""


def queue_name(name: str) -> str:
    """A queue's name in our tree."""
    return f"queue {name}"


def cohort_name(name: str) -> str:
    """A cohort's name in our tree."""
    return f"cohort {name}"


def quota_tree(given: Fields) -> QuotaTree:
    """The queues and cohorts of a case, including undeclared cohorts."""
    queues = given["queues"]
    cohorts = {cohort["name"]: cohort for cohort in given.get("cohorts") or ()}
    named = {queue.get("cohort") for queue in queues}
    named |= {cohort.get("parent") for cohort in cohorts.values()}
    for name in sorted(name for name in named if name and name not in cohorts):
        cohorts[name] = {"name": name}
    nodes = [
        _node(cohort, cohort_name(name), cohort.get("parent"), is_queue=False)
        for name, cohort in cohorts.items()
    ]
    nodes += [
        _node(queue, queue_name(queue["name"]), queue.get("cohort"), is_queue=True)
        for queue in queues
    ]
    return QuotaTree(nodes)


def _node(given: Fields, name: str, above: str | None, *, is_queue: bool) -> QuotaNode:
    weight = given.get("weight")
    return QuotaNode(
        name=name,
        parent=cohort_name(above) if above else None,
        quotas=dict(_quotas(given)),
        weight=1.0 if weight is None else float(weight),
        is_queue=is_queue,
    )


def _quotas(given: Fields) -> Iterator[tuple[FlavorResource, Quota]]:
    for group in given.get("resource_groups") or ():
        for flavor in group["flavors"]:
            for resource, quota in (flavor.get("quotas") or {}).items():
                limits = {key: quota.get(key) for key in ("borrowing_limit", "lending_limit")}
                yield (flavor["flavor"], resource), Quota(nominal=quota["nominal"], **limits)


def amounts(by_flavor: Mapping[str, Mapping[str, int]] | None) -> dict[FlavorResource, int]:
    """``{flavor: {resource: amount}}`` as our flat amounts."""
    return {
        (flavor, resource): amount
        for flavor, resources in (by_flavor or {}).items()
        for resource, amount in resources.items()
    }


def _tree_in_use(given: Fields) -> QuotaTree:
    tree = quota_tree(given)
    for queue, usage in (given.get("usage") or {}).items():
        tree.add_usage(queue_name(queue), amounts(usage))
    return tree


def _difference(name: str, ours: object, published: object) -> str | None:
    return None if ours == published else f"{name}: ours {ours!r}, published {published!r}"


def _first(differences: Iterable[str | None]) -> str | None:
    return next((difference for difference in differences if difference is not None), None)


def answer_available_quota(case: Case, fixtures: dict[str, Any]) -> str | None:
    """Available quota, and what would be available if nothing ran."""
    tree = _tree_in_use(case["input"])

    def differences() -> Iterator[str | None]:
        note_unread(case["input"], {**TREE_KEYS, "usage": None})
        note_unread(case["expect"], keys("available potentially_available"), "expect")
        for key, ask in (("available", tree.available), ("potentially_available", tree.potential)):
            for queue, published in case["expect"][key].items():
                for fr, amount in amounts(published).items():
                    yield _difference(f"{key} of {queue} {fr}", ask(queue_name(queue), fr), amount)

    return _first(differences())


def answer_dominant_resource_share(case: Case, fixtures: dict[str, Any]) -> str | None:
    """Rounded share and dominant resource of every node, each with the extra request as its own.

    Kueue does not allow requests for undeclared flavors; our tree does, and counts them as borrowed.
    """
    given = case["input"]
    tree = _tree_in_use(given)
    extra = amounts(given.get("extra_request"))
    compared = ("rounded_share", "dominant_resource", "borrowing")

    def differences() -> Iterator[str | None]:
        note_unread(given, {**TREE_KEYS, **keys("usage extra_request")})
        note_unread(
            case["expect"], {"shares": keys("kind node", **dict.fromkeys(compared))}, "expect"
        )
        for published in case["expect"]["shares"]:
            named = queue_name if published["kind"] == "queue" else cohort_name
            name = named(published["node"])
            declared = tree.declared(name)
            own = {fr: amount for fr, amount in extra.items() if fr in declared}
            share = dominant_share(tree, name, own)
            ours = (rounded(share), share.resource, share.borrowing)
            yield _difference(name, ours, tuple(published[key] for key in compared))

    return _first(differences())


def answer_borrowing_on(case: Case, fixtures: dict[str, Any]) -> str | None:
    """Whether the first queue borrows, and whether it borrows a requested resource."""
    given = case["input"]
    share = dominant_share(_tree_in_use(given), queue_name(given["queues"][0]["name"]))
    requested = amounts(given.get("requested"))
    ours = {
        "borrowing": share.borrowing,
        "borrowing_on_requested": any(requested.get(one, 0) > 0 for one in share.borrowed),
    }
    note_unread(given, {**TREE_KEYS, **keys("usage requested")})
    return _difference("borrowing", ours, case["expect"])


def answer_partial_admission_search(case: Case, fixtures: dict[str, Any]) -> str | None:
    """The largest total that a limit on the total admits."""
    given = case["input"]
    note_unread(given, keys("count_limit", podsets=keys("name count min_count")))
    groups = [_range(group) for group in given["podsets"]]
    found = largest_fitting_counts(groups, lambda counts: sum(counts) <= given["count_limit"])
    ours = {"count": sum(found or ()), "found": found is not None}
    return _difference("counts", ours, case["expect"])


def _range(group: Fields) -> TaskGroupRange:
    """A group without a minimum needs all its tasks."""
    least = group.get("min_count")
    return TaskGroupRange(
        count=group["count"], min_count=group["count"] if least is None else least
    )


FAMILIES: dict[str, Answer] = {
    "available_quota": answer_available_quota,
    "borrowing_on": answer_borrowing_on,
    "dominant_resource_share": answer_dominant_resource_share,
    "partial_admission_search": answer_partial_admission_search,
}

"""Groups backlogs by priority, age and deadline, the most urgent first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from bursar.core.draft import Draft
from bursar.core.ordering.kind_order import FlatOrder, KindOrder, LoneOrder, ShareKey, ShareOrder
from bursar.core.quota.dominant_share import dominant_share
from bursar.core.state.job_record import Backlog, JobRecord
from bursar.model.tenants.policy import OrderPolicy, SharePolicy

Level = tuple[int, int]
"""Priority with aging, then whether the deadline is near; the highest goes first."""

_NONE, _DOMINANT_SHARE = SharePolicy.NONE, SharePolicy.DOMINANT_SHARE


def levels_of(draft: Draft) -> Iterable[list[Backlog]]:
    """The backlogs with waiting jobs, by level."""
    active = draft.state.active
    if len(active) < 2:
        return [list(active.values())] if active else []
    policy, now_ms = draft.state.policies.order, draft.now_ms
    by_level: dict[Level, list[Backlog]] = {}
    for backlog in active.values():
        head = backlog.head()
        assert head is not None
        level = _level(head, policy, now_ms)
        members = by_level.get(level)
        if members is None:
            by_level[level] = [backlog]
        else:
            members.append(backlog)
    return [by_level[level] for level in sorted(by_level, reverse=True)]


def _level(head: JobRecord, policy: OrderPolicy, now_ms: int) -> Level:
    priority = head.priority
    if policy.aging_step_ms:
        priority += (now_ms - head.submitted_at_ms) // policy.aging_step_ms
    urgent = 0
    if head.deadline_ms is not None:
        slack_ms = head.deadline_ms - now_ms - head.run_ms
        urgent = int(slack_ms < policy.urgent_slack_ms)
    return priority, urgent


def order_for(draft: Draft, backlogs: list[Backlog]) -> KindOrder:
    """The order of backlogs of one level, by the policy."""
    if len(backlogs) == 1:
        return LoneOrder(backlogs[0])
    share = draft.state.policies.order.share
    if share is _NONE:
        return FlatOrder(backlogs)
    share_key = _dominant(draft) if share is _DOMINANT_SHARE else _fair_tree(draft)
    return ShareOrder(backlogs, draft.state.parents, share_key)


def _fair_tree(draft: Draft) -> Callable[[str], ShareKey]:
    """Share keys by decayed usage over weight, with the starts of this cycle counted.

    Comparing siblings level by level from the root is Fair Tree: the parent's usage and the sum of the
    level's weights are common factors of all siblings and drop out. Where siblings tie, queues go
    before tenants with queues below them, as in ``slurm_fair_tree.py``.
    """
    usage = draft.state.usage
    horizon_ms = draft.state.policies.order.entry_horizon_ms
    tenants, added, now_ms = draft.state.tenants, draft.added_weight, draft.now_ms

    def share_key(tenant: str) -> ShareKey:
        used = usage.pressure(tenant, now_ms, horizon_ms) + added.get(tenant, 0) * horizon_ms
        spec = tenants[tenant]
        return (used / spec.weight if spec.weight > 0 else inf, not spec.is_queue)

    return share_key


def _dominant(draft: Draft) -> Callable[[str], ShareKey]:
    """Share keys by the dominant share of what is borrowed, then by usage."""
    quota = draft.state.quota
    by_usage = _fair_tree(draft)

    def share_key(tenant: str) -> ShareKey:
        return (dominant_share(quota, tenant).weighted, *by_usage(tenant))

    return share_key

"""Quotas, shares and the tree, for the tenants that the caller sees."""

from __future__ import annotations

from starlette.responses import Response

from bursar.api import wire
from bursar.api.http.request import RequestContext, answer
from bursar.control.access.permissions import visible_tenants
from bursar.core.explain.fair_share_view import standing_of
from bursar.core.quota.quota_tree import UNLIMITED
from bursar.core.state.fleet_state import FleetState


async def list_tenants(call: RequestContext) -> Response:
    seen = await _seen(call)

    def question(state: FleetState, _now_ms: int) -> list[wire.TenantRow]:
        return [
            {
                "name": name,
                "parent": one.parent,
                "weight": one.weight,
                "is_queue": one.is_queue,
                "queueing": one.queueing.value,
            }
            for name, one in sorted(state.tenants.items())
            if name in seen
        ]

    return answer({"items": await call.desk.ask(question)})


async def quota(call: RequestContext) -> Response:
    """What each tenant may hold, holds and borrows, by flavor and resource."""
    seen = await _seen(call)

    def question(state: FleetState, _now_ms: int) -> list[wire.QuotaRow]:
        return [
            _quota_row(state, name, fr)
            for name in state.quota.names()
            if name in seen
            for fr in sorted(state.limited)
        ]

    return answer({"items": await call.desk.ask(question)})


def _quota_row(state: FleetState, name: str, fr: tuple[str, str]) -> wire.QuotaRow:
    tree = state.quota
    used, own = tree.usage(name, fr), tree.subtree_quota(name, fr)
    available, limiter = tree.limit(name, fr)
    potential = tree.potential(name, fr)
    return {
        "tenant": name,
        "flavor": fr[0],
        "resource": fr[1],
        "nominal": own,
        "used": used,
        "borrowed": max(0, used - own),
        "available": available if available < UNLIMITED else None,
        "limit": potential if potential < UNLIMITED else None,
        "limited_by": limiter,
    }


async def fair(call: RequestContext) -> Response:
    """What each tenant has had of its level's usage, against what its weight promises."""
    seen = await _seen(call)

    def question(state: FleetState, now_ms: int) -> list[wire.FairRow]:
        return [_fair_row(state, name, now_ms) for name in sorted(state.tenants) if name in seen]

    return answer({"items": await call.desk.ask(question)})


def _fair_row(state: FleetState, name: str, now_ms: int) -> wire.FairRow:
    standing = standing_of(state, name, now_ms)
    tenant = state.tenants[name]
    return {
        "tenant": name,
        "parent": tenant.parent,
        "weight": tenant.weight,
        "usage": round(state.usage.usage(name, now_ms), 3),
        "share_permille": standing.used_permille,
        "entitlement_permille": standing.promised_permille,
        "rank": standing.rank,
        "siblings": standing.siblings,
    }


async def _seen(call: RequestContext) -> frozenset[str]:
    return visible_tenants(call.who, (await call.desk.ground()).tree)

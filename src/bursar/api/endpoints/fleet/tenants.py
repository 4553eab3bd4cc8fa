"""The tree, quotas and fair shares of the tenants that the caller may see."""

from __future__ import annotations

from bursar.api import wire
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Route
from bursar.api.wire.views import to_wire
from bursar.core.explain.fair_share_view import fair_share_rank
from bursar.core.quota.quota_tree import UNLIMITED
from bursar.core.state.fleet_state import FleetState
from bursar.model.tenants.identity import Permission


@Route("GET", "/v1/tenants", Permission.READ_TENANTS, "One row for each tenant.")
async def list_tenants(request: RequestContext) -> wire.TenantPage:
    """The tenants that you may see."""
    visible = await request.visible_tenants()

    def query(state: FleetState, _now_ms: int) -> list[wire.TenantRow]:
        return [
            to_wire(one, wire.TenantRow, name=name)
            for name, one in sorted(state.tenants.items())
            if name in visible
        ]

    return {"items": await request.context.query_state(query)}


@Route("GET", "/v1/quota", Permission.READ_TENANTS, "One row for each tenant and resource.")
async def quota(request: RequestContext) -> wire.QuotaPage:
    """Quota, usage and borrowing of each tenant."""
    visible = await request.visible_tenants()

    def query(state: FleetState, _now_ms: int) -> list[wire.QuotaRow]:
        return [
            _quota_row(state, name, flavor_resource)
            for name in state.quota.names()
            if name in visible
            for flavor_resource in sorted(state.limited)
        ]

    return {"items": await request.context.query_state(query)}


def _quota_row(state: FleetState, name: str, flavor_resource: tuple[str, str]) -> wire.QuotaRow:
    tree = state.quota
    used, nominal = tree.usage(name, flavor_resource), tree.subtree_quota(name, flavor_resource)
    available, limiter = tree.limit(name, flavor_resource)
    potential = tree.potential(name, flavor_resource)
    return {
        "tenant": name,
        "flavor": flavor_resource[0],
        "resource": flavor_resource[1],
        "nominal": nominal,
        "used": used,
        "borrowed": max(0, used - nominal),
        "available": available if available < UNLIMITED else None,
        "limit": potential if potential < UNLIMITED else None,
        "limited_by": limiter,
    }


@Route("GET", "/v1/fair", Permission.READ_TENANTS, "One row for each tenant.")
async def fair(request: RequestContext) -> wire.FairPage:
    """The usage of each tenant against its fair share."""
    visible = await request.visible_tenants()

    def query(state: FleetState, now_ms: int) -> list[wire.FairRow]:
        return [_fair_row(state, name, now_ms) for name in sorted(state.tenants) if name in visible]

    return {"items": await request.context.query_state(query)}


def _fair_row(state: FleetState, name: str, now_ms: int) -> wire.FairRow:
    share = fair_share_rank(state, name, now_ms)
    tenant = state.tenants[name]
    return to_wire(
        share,
        wire.FairRow,
        tenant=name,
        parent=tenant.parent,
        weight=tenant.weight,
        usage=round(state.usage.usage(name, now_ms), 3),
        share_permille=share.used_permille,
        entitlement_permille=share.promised_permille,
    )

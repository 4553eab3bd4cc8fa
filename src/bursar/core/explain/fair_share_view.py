"""Each tenant's usage among its siblings, against its fair share."""

from __future__ import annotations

from bursar.core.state.fleet_state import FleetState
from bursar.model.explain.explanation import FairShareRank
from bursar.model.units import MILLI


def fair_share_path(state: FleetState, queue: str, now_ms: int) -> tuple[FairShareRank, ...]:
    """The ranks of a queue and its ancestors; those without siblings are left out."""
    ranks = []
    tenant: str | None = queue
    while tenant is not None:
        siblings = _siblings(state, tenant)
        if len(siblings) > 1:
            ranks.append(_rank_among(state, tenant, siblings, now_ms))
        tenant = state.parents[tenant]
    return tuple(ranks)


def fair_share_rank(state: FleetState, tenant: str, now_ms: int) -> FairShareRank:
    """A tenant's rank among its siblings; without siblings 1 of 1."""
    return _rank_among(state, tenant, _siblings(state, tenant), now_ms)


def _siblings(state: FleetState, tenant: str) -> list[str]:
    parent = state.parents[tenant]
    return sorted(name for name, above in state.parents.items() if above == parent)


def _rank_among(state: FleetState, tenant: str, siblings: list[str], now_ms: int) -> FairShareRank:
    horizon_ms = state.policies.order.entry_horizon_ms
    used = {name: state.usage.pressure(name, now_ms, horizon_ms) for name in siblings}
    weights = {name: state.tenants[name].weight for name in siblings}

    def usage_over_weight(name: str) -> tuple[float, str]:
        return (used[name] / weights[name] if weights[name] > 0 else float("inf")), name

    return FairShareRank(
        tenant=tenant,
        used_permille=_permille(used[tenant], sum(used.values())),
        promised_permille=_permille(weights[tenant], sum(weights.values())),
        rank=sorted(siblings, key=usage_over_weight).index(tenant) + 1,
        siblings=len(siblings),
    )


def _permille(part: float, whole: float) -> int:
    return round(MILLI * part / whole) if whole > 0 else 0

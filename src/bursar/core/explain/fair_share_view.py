"""Each tenant's usage among its siblings, against its fair share."""

from __future__ import annotations

from bursar.core.state.fleet_state import FleetState
from bursar.model.explain.explanation import FairShareRank
from bursar.model.units import MILLI


def fair_share_path(state: FleetState, queue: str, now_ms: int) -> tuple[FairShareRank, ...]:
    """The ranks of a queue and its ancestors; those without siblings are left out."""
    path = (queue, *state.quota.ancestors(queue))
    ranks = [fair_share_rank(state, tenant, now_ms) for tenant in path]
    return tuple(rank for rank in ranks if rank.siblings > 1)


def fair_share_rank(state: FleetState, tenant: str, now_ms: int) -> FairShareRank:
    """A tenant's rank among its siblings; without siblings 1 of 1."""
    parent = state.parents[tenant]
    siblings = sorted(name for name, above in state.parents.items() if above == parent)
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

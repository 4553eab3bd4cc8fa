"""Where a job and its tenants stand: position in line, and share had against share promised."""

from __future__ import annotations

from bursar.core.ahead import Ahead
from bursar.core.draft import Draft
from bursar.core.levels import levels_of
from bursar.core.line import JobRecord
from bursar.core.state import FleetState
from bursar.model.explanation import Position, ShareStanding
from bursar.model.units import MILLI


def position_of(state: FleetState, record: JobRecord, ahead: Ahead, now_ms: int) -> Position:
    """A waiting job's place in its queue and among all, by the order of turns."""
    queue = record.spec.queue
    before = length = 0
    passed = False
    for level in levels_of(Draft(state, now_ms)):
        own_level = any(line is record.line for line in level)
        for line in level:
            if line.kind.queue != queue:
                continue
            length += line.count
            if own_level:
                before += sum(other.rank < record.rank for other in line.jobs())
            elif not passed:
                before += line.count
        passed = passed or own_level
    return Position(
        in_queue=before + 1,
        queue_length=length,
        overall=ahead.jobs + 1,
        waiting=sum(line.count for line in state.lines.values()),
        is_exact=ahead.is_exact,
    )


def standings_of(state: FleetState, queue: str, now_ms: int) -> tuple[ShareStanding, ...]:
    """A queue and the tenants above it, each among its siblings; where it has none, nothing."""
    found = []
    tenant: str | None = queue
    while tenant is not None:
        siblings = _siblings(state, tenant)
        if len(siblings) > 1:
            found.append(_standing(state, tenant, siblings, now_ms))
        tenant = state.parents[tenant]
    return tuple(found)


def standing_of(state: FleetState, tenant: str, now_ms: int) -> ShareStanding:
    """One tenant among its siblings; alone, it is the first of one."""
    return _standing(state, tenant, _siblings(state, tenant), now_ms)


def _siblings(state: FleetState, tenant: str) -> list[str]:
    parent = state.parents[tenant]
    return sorted(name for name, above in state.parents.items() if above == parent)


def _standing(state: FleetState, tenant: str, siblings: list[str], now_ms: int) -> ShareStanding:
    horizon_ms = state.policies.order.entry_horizon_ms
    used = {name: state.usage.pressure(name, now_ms, horizon_ms) for name in siblings}
    weights = {name: state.tenants[name].weight for name in siblings}

    def had(name: str) -> tuple[float, str]:
        return (used[name] / weights[name] if weights[name] > 0 else float("inf")), name

    return ShareStanding(
        tenant=tenant,
        used_permille=_permille(used[tenant], sum(used.values())),
        promised_permille=_permille(weights[tenant], sum(weights.values())),
        rank=sorted(siblings, key=had).index(tenant) + 1,
        siblings=len(siblings),
    )


def _permille(part: float, whole: float) -> int:
    return round(MILLI * part / whole) if whole > 0 else 0

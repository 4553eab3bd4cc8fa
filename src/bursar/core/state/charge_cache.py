"""Caches what placements are charged; plans reuse the same placement objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from bursar.core.nodes.pool import PoolState
from bursar.core.quota.charge import quota_request, share_weight
from bursar.model.jobs.attempt import Placement
from bursar.model.tenants.policy import UsageUnit
from bursar.model.tenants.tenant import FlavorResource

MOST_CHARGES: Final = 8_192
"""Above this number of cached charges, all are dropped."""


class Charge(NamedTuple):
    """What a placement takes of the limited quotas, and its weight in fair share."""

    placement: Placement
    request: Mapping[FlavorResource, int]
    weight: int


class ChargeCache:
    """Charges by placement object.

    The object is stored with its charge, so no other object can get its address meanwhile.
    """

    def __init__(self, pools: Mapping[str, PoolState], unit: UsageUnit) -> None:
        self._pools = pools
        self._unit = unit
        self._limited: Collection[FlavorResource] = ()
        self._known: dict[int, Charge] = {}

    def limit(self, limited: Collection[FlavorResource]) -> None:
        """Set the limited resources and clear the cache."""
        self._limited = limited
        self._known.clear()

    def of(self, placement: Placement) -> Charge:
        """The charge of a placement."""
        known = self._known.get(id(placement))
        if known is not None:
            return known
        spec = self._pools[placement.pool].spec
        request = quota_request(placement, spec.gpu_model, self._limited)
        weight = share_weight(placement, spec, self._unit)
        if placement.anchors is not None:
            anchors = self.of(placement.anchors)
            request, weight = request | dict(anchors.request), weight + anchors.weight
        charge = Charge(placement, request, weight)
        if len(self._known) >= MOST_CHARGES:
            self._known.clear()
        self._known[id(placement)] = charge
        return charge

"""Who pays for a queue: the nearest tenant above it, or itself, that gets a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bursar.model.tenants.tenant import FlavorResource, Tenant


class PayerTree:
    """The tenants as they are when statements are written. A queue that is gone pays for itself."""

    def __init__(self, tenants: Iterable[Tenant], payers: Iterable[str] = ()) -> None:
        self._tenants = {one.name: one for one in tenants}
        roots = [one.name for one in self._tenants.values() if one.parent not in self._tenants]
        self._payers = frozenset(payers) or frozenset(roots)
        self._payer_of: dict[str, str] = {}

    def upwards(self, name: str) -> Iterator[str]:
        """The tenant and all above it."""
        tenant = self._tenants.get(name)
        while tenant is not None:
            yield tenant.name
            tenant = self._tenants.get(tenant.parent or "")

    def payer_of(self, name: str) -> str:
        """Who pays for a tenant; nobody above it does when it is its own."""
        payer = self._payer_of.get(name)
        if payer is None:
            payer = next((one for one in self.upwards(name) if one in self._payers), name)
            self._payer_of[name] = payer
        return payer

    def unused(
        self, key: FlavorResource, used: Mapping[str, int], duration_ms: int
    ) -> dict[str, int]:
        """Nominal quota times time that each tenant had for itself and did not use.

        What a tenant uses above its own quota counts against that of the tenant above it, as it does
        when it is granted.
        """
        over = {name: amount for name, amount in used.items() if name in self._tenants}
        found: dict[str, int] = {}
        for name in sorted(self._tenants, key=lambda one: (-self._depth(one), one)):
            tenant = self._tenants[name]
            quota = tenant.quotas.get(key)
            mine = 0 if quota is None else quota.nominal * duration_ms
            taken = over.pop(name, 0)
            if mine > taken:
                found[name] = mine - taken
            elif tenant.parent in self._tenants:
                over[tenant.parent] = over.get(tenant.parent, 0) + taken - mine
        return found

    def _depth(self, name: str) -> int:
        return sum(1 for _ in self.upwards(name))

"""The payer of a queue: itself or the nearest tenant above it that gets a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bursar.model.tenants.tenant import FlavorResource, Tenant


def upwards(tenants: Mapping[str, Tenant], name: str) -> Iterator[str]:
    """A tenant and all its ancestors."""
    tenant = tenants.get(name)
    while tenant is not None:
        yield tenant.name
        tenant = tenants.get(tenant.parent or "")


class PayerTree:
    """The tenants at the time of a statement. A queue that no longer exists is its own payer."""

    def __init__(self, tenants: Iterable[Tenant], payers: Iterable[str] = ()) -> None:
        self._tenants = {one.name: one for one in tenants}
        roots = [one.name for one in self._tenants.values() if one.parent not in self._tenants]
        self._payers = frozenset(payers) or frozenset(roots)
        self._payer_of: dict[str, str] = {}

    def upwards(self, name: str) -> Iterator[str]:
        """The tenant and all its ancestors."""
        return upwards(self._tenants, name)

    def payer_of(self, name: str) -> str:
        """The payer of a tenant: itself if no tenant above it pays."""
        payer = self._payer_of.get(name)
        if payer is None:
            payer = next((one for one in self.upwards(name) if one in self._payers), name)
            self._payer_of[name] = payer
        return payer

    def unused(
        self, key: FlavorResource, used: Mapping[str, int], duration_ms: int
    ) -> dict[str, int]:
        """Nominal quota times time that each tenant did not use.

        Usage beyond a tenant's own quota counts against the quota of its parent, as in admission.
        """
        usage = {name: amount for name, amount in used.items() if name in self._tenants}
        unused: dict[str, int] = {}
        for name in sorted(self._tenants, key=lambda one: (-self._depth(one), one)):
            tenant = self._tenants[name]
            quota = tenant.quotas.get(key)
            nominal = 0 if quota is None else quota.nominal * duration_ms
            own_usage = usage.pop(name, 0)
            if nominal > own_usage:
                unused[name] = nominal - own_usage
            elif tenant.parent in self._tenants:
                usage[tenant.parent] = usage.get(tenant.parent, 0) + own_usage - nominal
        return unused

    def _depth(self, name: str) -> int:
        return sum(1 for _ in self.upwards(name))

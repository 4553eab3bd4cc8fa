"""What every tenant of the tree has used, with the past fading, at the cost of what changes.

A job that starts or stops touches its tenant and that tenant's ancestors: O(depth). No tick visits
the tenants, so ten thousand idle tenants cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from bursar.core.decay import Decay, UsageAccount


class TenantUsage:
    """Decayed usage of every tenant, each including everything below it.

    ``parents`` maps a tenant to its parent, the root to ``None``. Weights are whole numbers per
    millisecond in one unit for the whole tree (see :mod:`bursar.core.decay`).
    """

    __slots__ = ("_accounts", "_chains", "_decay", "_parents")

    def __init__(self, parents: Mapping[str, str | None], half_life_ms: int | None) -> None:
        self._decay = Decay(half_life_ms)
        self._parents = dict(parents)
        self._accounts = {tenant: UsageAccount(self._decay) for tenant in self._parents}
        self._chains: dict[str, tuple[UsageAccount, ...]] = {}

    def add_tenant(self, tenant: str, parent: str | None) -> None:
        """Make room for a tenant that joined after the tree was built; it starts with no usage."""
        if tenant in self._accounts:
            raise ValueError(f"tenant {tenant!r} already has an account")
        self._parents[tenant] = parent
        self._accounts[tenant] = UsageAccount(self._decay)

    def move(self, tenant: str, parent: str | None, now_ms: int) -> None:
        """Hang a tenant elsewhere in the tree; what it used and uses now goes with it."""
        account = self._accounts[tenant]
        used, rate = account.value_at(now_ms), account.rate_per_ms
        for above in self._chain(tenant)[1:]:
            above.add(-used, now_ms)
            above.change_rate(-rate, now_ms)
        self._parents[tenant] = parent
        self._chains.clear()
        for above in self._chain(tenant)[1:]:
            above.add(used, now_ms)
            above.change_rate(rate, now_ms)

    def start(self, tenant: str, weight_per_ms: int, now_ms: int) -> None:
        """From ``now_ms`` on, the tenant and its ancestors use ``weight_per_ms`` more."""
        for account in self._chains.get(tenant) or self._chain(tenant):
            account.change_rate(weight_per_ms, now_ms)

    def stop(self, tenant: str, weight_per_ms: int, now_ms: int) -> None:
        """Undo a :meth:`start` of the same weight from ``now_ms`` on; what was used stays used."""
        for account in self._chains.get(tenant) or self._chain(tenant):
            account.change_rate(-weight_per_ms, now_ms)

    def add(self, tenant: str, amount: float, now_ms: int) -> None:
        """Count an amount (weight times milliseconds) used at once, up to the root."""
        for account in self._chain(tenant):
            account.add(amount, now_ms)

    def usage(self, tenant: str, now_ms: int) -> float:
        """Decayed usage of the tenant and everything below it."""
        return self._accounts[tenant].value_at(now_ms)

    def snapshot(self) -> list[tuple[str, float, int]]:
        """Each tenant's value and the moment it was true at, exactly as it is kept."""
        return [(name, one.value, one.at_ms) for name, one in sorted(self._accounts.items())]

    def set_value(self, tenant: str, value: float, at_ms: int) -> None:
        """Put a value from a ``snapshot`` back; the rate stays what the live jobs make it."""
        account = self._accounts[tenant]
        account.value, account.at_ms = value, at_ms

    def rate(self, tenant: str) -> int:
        """What the tenant and everything below it is using per millisecond."""
        return self._accounts[tenant].rate_per_ms

    def pressure(self, tenant: str, now_ms: int, horizon_ms: int) -> float:
        """Usage, plus what is already running counted ``horizon_ms`` ahead.

        Usage alone is blind to a burst: a hundred jobs started in one instant have used nothing
        yet. Counting what a tenant holds for the next stretch at once is the entry penalty of
        Kueue's admission fair sharing without its bookkeeping: the penalty is a function of the
        rate, so there is no record to keep, fold in, or give back when a start fails.
        """
        account = self._accounts[tenant]
        return account.value_at(now_ms) + account.rate_per_ms * horizon_ms

    def _chain(self, tenant: str) -> tuple[UsageAccount, ...]:
        """The accounts from the tenant up to the root, found once per tenant."""
        chain = self._chains.get(tenant)
        if chain is None:
            path = []
            at: str | None = tenant
            while at is not None:
                path.append(self._accounts[at])
                at = self._parents[at]
            chain = self._chains[tenant] = tuple(path)
        return chain

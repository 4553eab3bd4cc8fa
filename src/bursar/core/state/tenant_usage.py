"""Decayed usage of every tenant, updated at each start and stop.

A job that starts or stops touches its tenant and that tenant's ancestors: O(depth). No tick visits
the tenants, so ten thousand idle tenants cost nothing.

Slurm and Kueue apply decay by visiting every tenant at every sampling interval, and both
approximate what happens between two samples. Here no tenant is visited. An account stores one
value, the rate at which it is growing and the time both were true; the value at any later time
follows from a closed formula. Nothing is computed while nothing changes, and the result does not
depend on how often it was read.

Units: a rate is any whole number per millisecond (for example micro-dollars per hour, or GPUs of a
reference model), and usage is that rate times milliseconds. Fair sharing only compares usages with
each other, so the unit never has to be converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, expm1, log

from bursar.model.state_snapshot import UsageSnapshot

Amount = int | float
"""An integer where nothing decays, which a float would round."""


class Decay:
    """Exponential decay with half-life h.

    ``U(t + d) = U(t) * 2^(-d/h) + R * (h / ln 2) * (1 - 2^(-d/h))`` while the rate R is constant.

    Two half-lives are special. ``None`` never forgets: ``U(t + d) = U(t) + R * d``, in whole
    numbers. ``0`` remembers nothing: usage *is* the current rate. (The limit of the formula is
    ``R * h / ln 2``; the factor is the same for every tenant, so it is dropped, which keeps the
    order of tenants.)
    """

    def __init__(self, half_life_ms: int | None) -> None:
        if half_life_ms is not None and half_life_ms < 0:
            raise ValueError(
                f"half_life_ms is {half_life_ms}; write 0 (no history) or more, or None"
            )
        self.half_life_ms = half_life_ms
        self.mean_life_ms = half_life_ms / log(2) if half_life_ms else 0.0
        self.fade_per_ms = log(2) / half_life_ms if half_life_ms else 0.0

    def after(self, value: Amount, rate_per_ms: int, elapsed_ms: int) -> Amount:
        """The value ``elapsed_ms`` later, growing at a constant rate."""
        if self.half_life_ms:
            faded = -elapsed_ms * self.fade_per_ms
            if rate_per_ms:
                return value * exp(faded) - rate_per_ms * self.mean_life_ms * expm1(faded)
            return value * exp(faded)
        if self.half_life_ms is None:
            return value + rate_per_ms * elapsed_ms
        return rate_per_ms


class UsageAccount:
    """One decayed total: its value and rate as they were at ``at_ms``.

    The law is linear, so events may arrive late: a change that took effect before ``at_ms`` adds
    exactly what it has contributed since. Any order of the same changes ends in the same usage.
    """

    __slots__ = ("_decay", "_fade_per_ms", "_mean_life_ms", "at_ms", "rate_per_ms", "value")

    def __init__(self, decay: Decay, at_ms: int = 0) -> None:
        self._decay = decay
        self._fade_per_ms = decay.fade_per_ms
        self._mean_life_ms = decay.mean_life_ms
        self.value: Amount = 0
        self.rate_per_ms = 0
        self.at_ms = at_ms

    def value_at(self, now_ms: int) -> Amount:
        """The usage at ``now_ms``; before the last change, the usage at the last change."""
        elapsed_ms = now_ms - self.at_ms
        return self._decay.after(self.value, self.rate_per_ms, elapsed_ms if elapsed_ms > 0 else 0)

    def change_rate(self, delta_per_ms: int, now_ms: int) -> None:
        """Grow faster (or slower) from ``now_ms`` on; in whole numbers, so all stops end at 0.

        Every start and every end comes here for each tenant above it, so the law of :meth:`Decay.after`
        is written out for the usual case.
        """
        elapsed_ms = now_ms - self.at_ms
        if elapsed_ms > 0:
            rate_per_ms = self.rate_per_ms
            if self._fade_per_ms and rate_per_ms:
                faded = -elapsed_ms * self._fade_per_ms
                grown = rate_per_ms * self._mean_life_ms * expm1(faded)
                self.value = self.value * exp(faded) - grown
            else:
                self.value = self._decay.after(self.value, rate_per_ms, elapsed_ms)
            self.at_ms = now_ms
        elif elapsed_ms < 0:
            self.value += self._decay.after(0, delta_per_ms, -elapsed_ms)
        elif self._decay.half_life_ms == 0:
            self.value = self.rate_per_ms
        self.rate_per_ms += delta_per_ms

    def add(self, amount: Amount, now_ms: int) -> None:
        """Add an amount used at ``now_ms``: a correction, or imported history."""
        if now_ms >= self.at_ms:
            self.value = self.value_at(now_ms) + amount
            self.at_ms = now_ms
        else:
            self.value += self._decay.after(amount, 0, self.at_ms - now_ms)


class TenantUsage:
    """Decayed usage of every tenant, each including everything below it.

    ``parents`` maps a tenant to its parent, the root to ``None``. Weights are whole numbers per
    millisecond in one unit for the whole tree (see the top of this module).
    """

    def __init__(self, parents: Mapping[str, str | None], half_life_ms: int | None) -> None:
        self._decay = Decay(half_life_ms)
        self._parents = dict(parents)
        self._accounts = {tenant: UsageAccount(self._decay) for tenant in self._parents}
        self._chains: dict[str, tuple[UsageAccount, ...]] = {}

    def add_tenant(self, tenant: str, parent: str | None) -> None:
        """Add a tenant after the tree was built; it starts without usage."""
        if tenant in self._accounts:
            raise ValueError(f"tenant {tenant!r} already has an account")
        self._parents[tenant] = parent
        self._accounts[tenant] = UsageAccount(self._decay)

    def move(self, tenant: str, parent: str | None, now_ms: int) -> None:
        """Move a tenant in the tree together with its usage."""
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

    def to_snapshot(self) -> tuple[UsageSnapshot, ...]:
        """Each tenant's stored value and its time."""
        return tuple(
            UsageSnapshot(tenant=name, value=one.value, at_ms=one.at_ms)
            for name, one in sorted(self._accounts.items())
        )

    def set_value(self, tenant: str, value: float, at_ms: int) -> None:
        """Restore a value of ``to_snapshot``; the rate follows from the live jobs."""
        account = self._accounts[tenant]
        account.value, account.at_ms = value, at_ms

    def rate(self, tenant: str) -> int:
        """What the tenant and everything below it is using per millisecond."""
        return self._accounts[tenant].rate_per_ms

    def pressure(self, tenant: str, now_ms: int, horizon_ms: int) -> float:
        """Usage, plus what is already running counted ``horizon_ms`` ahead.

        Usage alone is blind to a burst: a hundred jobs started in one instant have used nothing
        yet. Counting in advance what a tenant holds is the entry penalty of
        Kueue's admission fair sharing without its bookkeeping: the penalty is a function of the
        rate, so nothing must be stored, or returned when a start fails.
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

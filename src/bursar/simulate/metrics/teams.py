"""Accounts of teams, and the claims by which GPU time is divided between them.

A team is a tenant directly below the root of the tree, or a root that is a queue itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from bursar.core.quota.quota_tree import UNLIMITED
from bursar.model.tenants.tenant import GPU, Tenant
from bursar.simulate.metrics.time_integral import TimeIntegral


class TeamAccount:
    """What one team holds and waits for, its cost of ended attempts, and its outcomes."""

    __slots__ = (
        "cancelled",
        "entitled",
        "failed",
        "held",
        "index",
        "lost_micro_usd_ms",
        "lost_milli_ms",
        "name",
        "paid_micro_usd_ms",
        "preemptions",
        "submitted",
        "succeeded",
        "waiting",
    )

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.held = TimeIntegral()
        self.waiting = TimeIntegral()
        self.entitled = 0.0
        self.submitted = self.succeeded = self.failed = self.cancelled = 0
        self.preemptions = 0
        self.paid_micro_usd_ms = self.lost_milli_ms = self.lost_micro_usd_ms = 0

    def demand(self, at_ms: int) -> int:
        """GPU time that the team held or waited for up to a time."""
        return self.held.total(at_ms) + self.waiting.total(at_ms)


class TeamAccounts:
    """The accounts of all teams with jobs, in order of their first submission."""

    def __init__(self, tenants: Mapping[str, Tenant]) -> None:
        self._tenants = tenants
        self._of_queue: dict[str, TeamAccount] = {}
        self._by_name: dict[str, TeamAccount] = {}
        self.all: list[TeamAccount] = []
        self.claims: tuple[float, ...] = ()

    def of(self, queue: str) -> TeamAccount:
        """The account of the team to which a queue belongs."""
        account = self._of_queue.get(queue)
        if account is None:
            name = self._team_name(queue)
            account = self._by_name.get(name)
            if account is None:
                account = self._by_name[name] = TeamAccount(name, len(self.all))
                self.all.append(account)
                self.claims = self._claims()
            self._of_queue[queue] = account
        return account

    def tenants_changed(self) -> None:
        """Weights, quotas or parents changed: finds teams and claims again."""
        self._of_queue.clear()
        self.claims = self._claims()

    def _team_name(self, tenant: str) -> str:
        name = tenant
        while (known := self._tenants.get(name)) is not None and known.parent is not None:
            parent = self._tenants.get(known.parent)
            if parent is None or parent.parent is None:
                return name
            name = known.parent
        return name

    def _claims(self) -> tuple[float, ...]:
        """The GPU quota of each team and all below it, or weights without (limited) quotas."""
        quotas = dict.fromkeys(self._by_name, 0)
        for name, tenant in sorted(self._tenants.items()):
            team = self._team_name(name)
            if team in quotas:
                gpus = (q.nominal for (_, unit), q in tenant.quotas.items() if unit == GPU)
                quotas[team] += sum(gpus)
        amounts = [quotas[account.name] for account in self.all]
        if any(amounts) and max(amounts) < UNLIMITED:
            return tuple(float(amount) for amount in amounts)
        return tuple(self._weight(account.name) for account in self.all)

    def _weight(self, team: str) -> float:
        tenant = self._tenants.get(team)
        return 1.0 if tenant is None else tenant.weight

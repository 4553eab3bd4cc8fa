"""Renders the tenant tree as a Slurm setup.

| fleet | Slurm |
|---|---|
| tenant | account with the same name and parent; weight x 100 shares |
| queue with a quota | QOS of its name: at most the nominal quota, goes first, preempts borrowed jobs |
| borrowing of a queue | QOS ``NAME-borrow``: at most the borrowing limit, goes last, may be requeued |
| borrowing limit of a tenant | GrpTRES of its account: the nominal quota of its subtree plus that limit |
| hard budget | GrpTRESMins of its account in billing minutes |
| pool | partition, or the partitions that its label ``slurm.partition`` names |
| price of a node | TRESBillingWeights: a job pays for its largest share of the node, as in our ledger |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log

from bursar.engines.slurm.governed.conf import PartitionPlan, settings_of
from bursar.engines.slurm.governed.desired import (
    BORROW,
    ROOT,
    AccountMember,
    Amounts,
    Qos,
    SlurmAccount,
    SlurmSetup,
)
from bursar.engines.slurm.governed.gres_names import GresNames
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import EngineKind, Fleet
from bursar.model.tenants.policy import Policies, Reclaim
from bursar.model.tenants.tenant import (
    Budget,
    BudgetPeriod,
    Enforcement,
    FlavorResource,
    Queueing,
    Tenant,
)
from bursar.model.units import DAY_MS

SHARES_PER_WEIGHT = 100
"""Keeps weights like 1.5 exact, and makes the share of Slurm's own root user (1) negligible."""
GUARANTEED_PRIORITY = 1_000
PERIOD_MS = {
    BudgetPeriod.DAY: DAY_MS,
    BudgetPeriod.WEEK: 7 * DAY_MS,
    BudgetPeriod.MONTH: 30 * DAY_MS,
    BudgetPeriod.QUARTER: 91 * DAY_MS,
    BudgetPeriod.YEAR: 365 * DAY_MS,
}
BILLING_MINUTES_PER_MICRO_USD = 60 / 1_000
"""A billing unit is a thousandth of a dollar for an hour, so a dollar is 60,000 billing minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderOptions:
    """Options that are not in the fleet file. ``members`` are added; existing members are never removed."""

    cluster: str
    members: tuple[AccountMember, ...] = ()
    grace_seconds: int = 30
    gres_types: Mapping[str, str] | None = None
    """Slurm's name of each GPU model on this cluster."""


def render(
    fleet: Fleet, tenants: Iterable[Tenant], policies: Policies, options: RenderOptions
) -> SlurmSetup:
    """The desired setup of a cluster."""
    return _Render(fleet, tuple(tenants), policies, options).setup()


def slurm_cluster(fleet: Fleet, named: str | None) -> str:
    """The Slurm cluster of this name, or the only one."""
    known = [one.name for one in fleet.clusters if one.engine is EngineKind.SLURM]
    if named is not None:
        if named in known:
            return named
        fix = f"Its Slurm clusters: {', '.join(known) or 'none'}."
        raise UserError(f"the fleet has no Slurm cluster {named!r}.", fix=fix, code="no-slurm")
    if len(known) == 1:
        return known[0]
    if not known:
        raise UserError(
            "no cluster of this fleet uses Slurm.",
            fix="Write 'engine: slurm' below the cluster's name.",
            code="no-slurm",
        )
    raise UserError(
        f"{len(known)} clusters of this fleet use Slurm: {', '.join(known)}.",
        fix="Name one with --cluster.",
        code="no-slurm",
    )


class _Render:
    """One rendering; collects ``notes`` about what Slurm cannot express."""

    def __init__(
        self, fleet: Fleet, tenants: tuple[Tenant, ...], policies: Policies, options: RenderOptions
    ) -> None:
        self.tenants = tenants
        self.policies = policies
        self.options = options
        self.notes: list[str] = []
        self.gres = GresNames(fleet, options.cluster, options.gres_types or {})
        self.children: dict[str | None, list[Tenant]] = {}
        for tenant in tenants:
            self.children.setdefault(tenant.parent, []).append(tenant)
        flavors = {pool.flavor for pool in self.gres.pools}
        mentioned = {key for one in tenants for key in one.quotas if key[0] in flavors}
        self.limited = tuple(sorted(mentioned))
        """Resources of which any tenant has a quota: they are limited for all."""

    def setup(self) -> SlurmSetup:
        self._check_names()
        qos = [one for tenant in self.tenants if tenant.is_queue for one in self._qos(tenant)]
        accounts = [self._account(tenant) for tenant in self._parents_first(None)]
        plan = PartitionPlan(self.gres, self.policies, self.notes)
        self._note_unsupported()
        return SlurmSetup(
            qos=tuple(qos),
            accounts=tuple(accounts),
            members=self._members(),
            partitions=plan.partitions(),
            settings=settings_of(self.policies, self.gres),
            notes=tuple(self.notes),
        )

    def _parents_first(self, parent: str | None) -> Iterable[Tenant]:
        for tenant in self.children.get(parent, ()):
            yield tenant
            yield from self._parents_first(tenant.name)

    def _check_names(self) -> None:
        seen: dict[str, str] = {ROOT: "Slurm's own"}
        for tenant in self.tenants:
            name = tenant.name.lower()
            if name in seen:
                raise UserError(
                    f"the tenant {tenant.name!r} would be the account {name!r}, which is {seen[name]}.",
                    fix="Rename it: Slurm stores account names in lower case.",
                    code="slurm-name-taken",
                )
            seen[name] = f"the tenant {tenant.name!r} already"

    def _members(self) -> tuple[AccountMember, ...]:
        queues = {one.name: one.name.lower() for one in self.tenants if one.is_queue}
        members = []
        for member in self.options.members:
            if member.account not in queues:
                raise UserError(
                    f"{member.account!r} is not a queue of this fleet.",
                    fix=f"Its queues: {', '.join(sorted(queues))}.",
                    code="no-such-queue",
                )
            members.append(AccountMember(user=member.user, account=queues[member.account]))
        return tuple(sorted(set(members), key=lambda one: (one.account, one.user)))

    # -- accounts ------------------------------------------------------------------------------------

    def _account(self, tenant: Tenant) -> SlurmAccount:
        qos = tuple(one.name for one in self._qos(tenant)) if tenant.is_queue else ()
        return SlurmAccount(
            name=tenant.name.lower(),
            parent=(tenant.parent or ROOT).lower(),
            shares=max(1, round(tenant.weight * SHARES_PER_WEIGHT)) if tenant.weight else 0,
            most=self.gres.limits(self._cap(tenant)),
            most_minutes=self._budget(tenant),
            qos=qos,
            default_qos=qos[0] if qos else "",
        )

    def _cap(self, tenant: Tenant) -> dict[FlavorResource, int]:
        """Limits of its subtree, where there are any."""
        caps: dict[FlavorResource, int] = {}
        for key in self.limited:
            quota = tenant.quotas.get(key)
            if tenant.parent is None:
                caps[key] = self._nominal(tenant, key)
            elif quota is not None and quota.borrowing_limit is not None:
                caps[key] = self._nominal(tenant, key) + quota.borrowing_limit
        return caps

    def _nominal(self, tenant: Tenant, key: FlavorResource) -> int:
        own = tenant.quotas[key].nominal if key in tenant.quotas else 0
        return own + sum(self._nominal(one, key) for one in self.children.get(tenant.name, ()))

    def _budget(self, tenant: Tenant) -> Amounts:
        budget = tenant.budget
        if budget is None:
            return {}
        if budget.enforcement is not Enforcement.HARD:
            self.notes.append(
                f"{tenant.name}: a soft budget only warns, which Slurm cannot do; it is omitted"
            )
            return {}
        most = budget_billing_minutes(budget, self.policies.order.half_life_ms)
        return {"billing": most}

    # -- QOS -----------------------------------------------------------------------------------------

    def _qos(self, queue: Tenant) -> list[Qos]:
        """The QOS for a queue's own quota and the one for borrowing; none if no quota exists."""
        if not self.limited:
            return []
        name = queue.name.lower()
        own = {key: queue.quotas[key].nominal if key in queue.quotas else 0 for key in self.limited}
        qos = []
        if any(own.values()):
            qos.append(
                Qos(
                    name=name,
                    priority=GUARANTEED_PRIORITY,
                    most=self.gres.limits(own),
                    preempts=self._preempts(queue),
                    grace_seconds=self.options.grace_seconds,
                )
            )
        if self._may_borrow(queue):
            qos.append(
                Qos(
                    name=name + BORROW,
                    most=self.gres.limits(self._borrowing(queue)),
                    grace_seconds=self.options.grace_seconds,
                )
            )
        return qos

    def _preempts(self, queue: Tenant) -> tuple[str, ...]:
        """The borrowing QOS of all queues, its own included."""
        if queue.preemption.reclaim not in (Reclaim.ANY, Reclaim.LOWER_PRIORITY):
            return ()
        borrowers = [one for one in self.tenants if one.is_queue and self._may_borrow(one)]
        return tuple(sorted(one.name.lower() + BORROW for one in borrowers))

    def _may_borrow(self, queue: Tenant) -> bool:
        if not self.limited or queue.parent is None:
            return False
        limits = [queue.quotas[key].borrowing_limit for key in self.limited if key in queue.quotas]
        return len(limits) < len(self.limited) or any(limit != 0 for limit in limits)

    def _borrowing(self, queue: Tenant) -> dict[FlavorResource, int]:
        limits = {}
        for key in self.limited:
            quota = queue.quotas.get(key)
            if quota is not None and quota.borrowing_limit is not None:
                limits[key] = quota.borrowing_limit
        return limits

    # -- what Slurm cannot express -------------------------------------------------------------------

    def _note_unsupported(self) -> None:
        note = self.notes.append
        for tenant in self.tenants:
            if tenant.queueing is Queueing.STRICT:
                note(f"{tenant.name}: queueing strict; Slurm's backfill overtakes blocked jobs")
            lends = sorted(
                key[0] for key, quota in tenant.quotas.items() if quota.lending_limit is not None
            )
            if lends:
                note(
                    f"{tenant.name}: lend of {', '.join(lends)}; in Slurm all idle capacity is lent"
                )
            if tenant.preemption.reclaim is Reclaim.LOWER_PRIORITY:
                note(
                    f"{tenant.name}: reclaim lower-priority; in Slurm it reclaims from all borrowers"
                )
        classes = sorted(self.policies.priority_classes.items(), key=lambda one: (one[1], one[0]))
        if len({value for _, value in classes}) > 1:
            names = ", ".join(f"{name} {value:+d}" if value else name for name, value in classes)
            note(
                f"priority classes ({names}): Slurm has none; the jobs of an account are ordered by age, "
                "regardless of their class"
            )
        self.notes.extend(self.gres.notes)


def budget_billing_minutes(budget: Budget, half_life_ms: int | None) -> int:
    """The limit on decayed usage under which no period, wherever it begins, costs more than the budget.

    Decayed usage u follows u' = r - k u for spending r and k = ln 2 / half-life. While u <= C, spending in
    any T is at most C + k C T, so C = budget / (1 + k T). Without a half-life there is no decay: k = 0.
    """
    decay = log(2) * PERIOD_MS[budget.period] / half_life_ms if half_life_ms else 0.0
    return int(budget.amount_micro_usd * BILLING_MINUTES_PER_MICRO_USD / (1 + decay))

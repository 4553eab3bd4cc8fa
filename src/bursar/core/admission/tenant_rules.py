"""Rules for tenants and policies: a tree with queues as leaves, quotas in known flavors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from bursar.core.admission.problem import Problem, repeated, suggest
from bursar.model.tenants.policy import FairStrategy, Policies, Reclaim
from bursar.model.tenants.tenant import RESOURCES, Tenant


def tenant_problems(tenants: Sequence[Tenant], flavors: Collection[str]) -> Iterator[Problem]:
    """All problems of the tenant tree; ``flavors`` are those of the fleet's pools."""
    yield from names_are_unique(tenants)
    yield from parents_exist(tenants)
    yield from tree_has_no_cycle(tenants)
    for index, tenant in enumerate(tenants):
        yield from _quota_problems(tenant, f"tenants[{index}]", flavors)


def names_are_unique(tenants: Sequence[Tenant]) -> Iterator[Problem]:
    for name in repeated(tenant.name for tenant in tenants):
        yield Problem(
            code="duplicate-tenant",
            field="tenants",
            text=f"has {name!r} twice",
            fix="Use each name once: jobs and quotas refer to tenants by name.",
        )


def parents_exist(tenants: Sequence[Tenant]) -> Iterator[Problem]:
    known = {tenant.name for tenant in tenants}
    queues = {tenant.name for tenant in tenants if tenant.is_queue}
    for index, tenant in enumerate(tenants):
        field = f"tenants[{index}].parent"
        if tenant.parent is None:
            continue
        if tenant.parent not in known:
            yield Problem(
                code="unknown-parent",
                field=field,
                text=f"of {tenant.name!r} is {tenant.parent!r}, which does not exist",
                fix=suggest(tenant.parent, known - queues - {tenant.name}, "tenant"),
            )
        elif tenant.parent in queues and tenant.parent != tenant.name:
            yield Problem(
                code="queue-with-children",
                field=field,
                text=f"of {tenant.name!r} is {tenant.parent!r}, a queue",
                fix=f"Queues are leaves: put {tenant.name!r} below another tenant, or set "
                f"is_queue of {tenant.parent!r} to false.",
            )


def tree_has_no_cycle(tenants: Sequence[Tenant]) -> Iterator[Problem]:
    parents = {tenant.name: tenant.parent for tenant in tenants}
    reported: set[str] = set()
    for index, tenant in enumerate(tenants):
        cycle = _cycle_from(tenant.name, parents)
        if not cycle or reported & set(cycle):
            continue
        reported |= set(cycle)
        yield Problem(
            code="tenant-cycle",
            field=f"tenants[{index}].parent",
            text=f"closes a cycle: {' > '.join(reversed([*cycle, cycle[0]]))}",
            fix="Leave parent out for the tenant at the top.",
        )


def _cycle_from(name: str, parents: dict[str, str | None]) -> list[str]:
    """The cycle above a tenant; empty if its ancestors end at a root."""
    path: dict[str, None] = {}
    at: str | None = name
    while at is not None and at not in path:
        path[at] = None
        at = parents.get(at)
    if at is None:
        return []
    names = list(path)
    return names[names.index(at) :]


def _quota_problems(tenant: Tenant, field: str, flavors: Collection[str]) -> Iterator[Problem]:
    for flavor, resource in sorted(tenant.quotas):
        if flavor not in flavors:
            yield Problem(
                code="unknown-flavor",
                field=f"{field}.quotas",
                text=f"of {tenant.name!r} names the flavor {flavor!r}, which no pool has",
                fix=suggest(flavor, flavors, "flavor"),
            )
        if resource not in RESOURCES:
            yield Problem(
                code="unknown-resource",
                field=f"{field}.quotas",
                text=f"of {tenant.name!r} names {resource!r}, in which no quota is held",
                fix=suggest(resource, RESOURCES, "resource"),
            )
    policy = tenant.preemption
    if policy.borrow_while_reclaiming is not None and policy.reclaim is Reclaim.NEVER:
        yield Problem(
            code="illegal-preemption",
            field=f"{field}.preemption.borrow_while_reclaiming",
            text=f"of {tenant.name!r} is set though reclaim is never",
            fix="Leave it out, or let the queue reclaim from any or lower-priority.",
        )


def policy_problems(policies: Policies) -> Iterator[Problem]:
    """All problems of the policies."""
    if not policies.priority_classes:
        yield Problem(
            code="no-priority-class",
            field="priority_classes",
            text="is empty, so no job could be submitted",
            fix="Write at least one, for example normal: 0.",
        )
    for term in repeated(policies.order.terms):
        yield Problem(
            code="duplicate-term",
            field="order.terms",
            text=f"has {term!s} twice",
            fix="Write each term once, the most important first.",
        )
    strategies = policies.preemption.fair_strategies
    legal = tuple(one for one in FairStrategy if one in strategies)
    if strategies != legal:
        yield Problem(
            code="illegal-fair-strategies",
            field="preemption.fair_strategies",
            text=f"is {', '.join(strategies)}",
            fix=f"Write each once, in this order: {', '.join(legal)}.",
        )
    yield from _governance_problems(policies)


def _governance_problems(policies: Policies) -> Iterator[Problem]:
    rules, classes = policies.governance, policies.priority_classes
    for name, rule in (
        ("spot_mandatory", rules.spot_mandatory),
        ("rate_ceiling", rules.rate_ceiling),
    ):
        for exempt in rule.exempt_priorities if rule is not None else ():
            if exempt not in classes:
                yield Problem(
                    code="unknown-priority-class",
                    field=f"governance.{name}.exempt_priorities",
                    text=f"names {exempt!r}, which is not a priority class",
                    fix=suggest(exempt, classes, "priority class"),
                )
    for restricted in rules.restricted_models:
        if not restricted.label.partition("=")[0] or "=" not in restricted.label:
            yield Problem(
                code="not-a-label",
                field="governance.restricted_models",
                text=f"has the label {restricted.label!r}, which is not of the form key=value",
                fix="Write for example label: kind=interactive.",
            )

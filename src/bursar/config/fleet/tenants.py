"""The tenant tree of a fleet file: nested, flat, or both; and the quotas in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from bursar.catalog.gpu_models import find_gpu_model
from bursar.config.fleet import fleet_keys
from bursar.config.fleet.pools import require
from bursar.config.yaml.located_value import LocatedValue
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import CPU_ONLY
from bursar.model.tenants.policy import (
    BorrowWhileReclaiming,
    PreemptionPolicy,
    Reclaim,
    WithinQueue,
)
from bursar.model.tenants.tenant import (
    CPU,
    GPU,
    MEMORY,
    Budget,
    BudgetAction,
    BudgetPeriod,
    BudgetStep,
    Enforcement,
    FlavorResource,
    Queueing,
    Quota,
    Tenant,
)
from bursar.model.units import GIB_MIB, MILLI, USD_MICRO

DEEPEST = 32
RESOURCE_OF = {
    "gpus": (GPU, MILLI, "thousandth of a GPU"),
    "cpus": (CPU, MILLI, "thousandth of a CPU"),
    "memory_gib": (MEMORY, GIB_MIB, "MiB"),
}


def read_tenants(sections: Iterable[LocatedValue]) -> list[tuple[Tenant, LocatedValue]]:
    """Every tenant with the entry that describes it, parents before what is nested in them."""
    found: dict[str, tuple[Tenant, LocatedValue]] = {}
    walks = (_walk(section, parent=None, depth=0) for section in sections)
    for tenant, place in chain.from_iterable(walks):
        if tenant.name in found:
            earlier = found[tenant.name][1].place
            raise UserError(
                f"{place.place}: the tenant {tenant.name!r} stands here and at {earlier}.",
                fix="Give each tenant a name of its own: jobs and quotas go by it.",
                code="duplicate-tenant",
            )
        found[tenant.name] = (tenant, place)
    return _without_queues_that_have_children(list(found.values()))


def _walk(
    entry: LocatedValue, parent: str | None, depth: int
) -> Iterator[tuple[Tenant, LocatedValue]]:
    if depth > DEEPEST:
        raise entry.wrong(
            f"is nested more than {DEEPEST} deep", "Make the tree flatter.", "tree-too-deep"
        )
    for name, one in entry.named().items():
        said = replace(one, name=f"the tenant {name!r}").fields(fleet_keys.TENANT)
        yield _read_tenant(name, parent, said), one
        if "children" in said:
            yield from _walk(said["children"], name, depth + 1)


def _read_tenant(name: str, parent: str | None, said: dict[str, LocatedValue]) -> Tenant:
    if "parent" in said and parent is not None:
        raise said["parent"].wrong(
            f"is written though {name!r} is nested below {parent!r}",
            "Leave it out, or move the tenant to the top of the section.",
            "two-parents",
        )
    above = said["parent"].text() if "parent" in said else parent
    is_queue = said["queue"].flag() if "queue" in said else "children" not in said
    terms: dict[str, PreemptionPolicy] = {}
    if "preemption" in said:
        terms["preemption"] = _read_preemption(said["preemption"])
    return Tenant(
        name=name,
        parent=above,
        weight=float(said["weight"].number()) if "weight" in said else 1.0,
        quotas=dict(_read_quotas(said["quotas"])) if "quotas" in said else {},
        is_queue=is_queue,
        budget=_read_budget(said["budget"]) if "budget" in said else None,
        queueing=(
            said["queueing"].choice(Queueing) if "queueing" in said else Queueing.BEST_EFFORT
        ),
        **terms,
    )


def _without_queues_that_have_children(
    found: list[tuple[Tenant, LocatedValue]],
) -> list[tuple[Tenant, LocatedValue]]:
    """In a flat file a tenant is known to be no queue only when all are read."""
    parents = {tenant.parent for tenant, _ in found}
    settled = []
    for tenant, entry in found:
        if tenant.name in parents and tenant.is_queue and "queue" not in entry.named():
            tenant = replace(tenant, is_queue=False)
        settled.append((tenant, entry))
    return settled


# -- quotas --------------------------------------------------------------------------------------


def _read_quotas(entry: LocatedValue) -> Iterator[tuple[FlavorResource, Quota]]:
    """A number alone is GPUs; a flavor's model may be written by any of its names."""
    seen: set[str] = set()
    for written, one in entry.named().items():
        flavor = _flavor(written, one)
        if flavor in seen:
            raise one.wrong(f"is {flavor} again", "Write each flavor once.", "duplicate-key")
        seen.add(flavor)
        if not one.is_mapping:
            yield (flavor, GPU), _read_allowance(one, *RESOURCE_OF["gpus"][1:])
            continue
        for key, amount in one.fields(fleet_keys.QUOTA).items():
            resource, per_one, unit = RESOURCE_OF[key]
            yield (flavor, resource), _read_allowance(amount, per_one, unit)


def _flavor(written: str, entry: LocatedValue) -> str:
    model, slash, market = written.rpartition("/")
    if not slash:
        raise entry.wrong(
            "is no flavor",
            f"Write the model and the market, for example '{written}/owned'.",
            "unknown-flavor",
        )
    if model.lower() == CPU_ONLY:
        return f"{CPU_ONLY}/{market}"
    try:
        return f"{find_gpu_model(model).name}/{market}"
    except UserError as error:
        raise entry.wrong("names no GPU model we know", error.fix, "unknown-flavor") from error


def _read_allowance(entry: LocatedValue, per_one: int, unit: str) -> Quota:
    if not entry.is_mapping:
        return Quota(nominal=entry.in_units(per_one, unit))
    said = entry.fields(fleet_keys.ALLOWANCE)
    return Quota(
        nominal=said["nominal"].in_units(per_one, unit) if "nominal" in said else 0,
        borrowing_limit=_limit(said.get("borrow"), per_one, unit),
        lending_limit=_limit(said.get("lend"), per_one, unit),
    )


def _read_budget(entry: LocatedValue) -> Budget:
    """A number alone is dollars a month."""
    if not entry.is_mapping:
        return Budget(amount_micro_usd=entry.in_units(USD_MICRO, "micro-dollar"))
    said = entry.fields(fleet_keys.BUDGET)
    require(entry, said, ("usd",))
    usual = Budget(amount_micro_usd=0)
    return Budget(
        amount_micro_usd=said["usd"].in_units(USD_MICRO, "micro-dollar"),
        period=said["period"].choice(BudgetPeriod) if "period" in said else usual.period,
        enforcement=(
            said["enforcement"].choice(Enforcement) if "enforcement" in said else usual.enforcement
        ),
        steps=tuple(map(_read_step, said["steps"].members())) if "steps" in said else (),
    )


def _read_step(entry: LocatedValue) -> BudgetStep:
    said = entry.fields(fleet_keys.BUDGET_STEP)
    require(entry, said, ("at_percent", "action"))
    return BudgetStep(
        at_percent=said["at_percent"].whole(), action=said["action"].choice(BudgetAction)
    )


def _limit(entry: LocatedValue | None, per_one: int, unit: str) -> int | None:
    return None if entry is None or entry.is_empty else entry.in_units(per_one, unit)


def _read_preemption(entry: LocatedValue) -> PreemptionPolicy:
    """What is left out is what a tenant has that says nothing of preemption at all."""
    said = entry.fields(fleet_keys.PREEMPTION)
    usual = Tenant(name="usual").preemption
    return PreemptionPolicy(
        within_queue=(
            said["within_queue"].choice(WithinQueue)
            if "within_queue" in said
            else usual.within_queue
        ),
        reclaim=said["reclaim"].choice(Reclaim) if "reclaim" in said else usual.reclaim,
        borrow_while_reclaiming=_borrowing(said.get("borrow_while_reclaiming")),
    )


def _borrowing(entry: LocatedValue | None) -> BorrowWhileReclaiming | None:
    if entry is None:
        return None
    if not entry.is_mapping:
        return BorrowWhileReclaiming() if entry.flag() else None
    said = entry.fields(fleet_keys.BORROWING)
    most = said.get("max_priority")
    return BorrowWhileReclaiming(max_priority=most.whole() if most else None)

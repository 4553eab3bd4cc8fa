"""The tenant tree of a fleet file, nested, flat or both, with quotas and budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bursar.catalog.gpu_models import find_gpu_model
from bursar.config.yaml.dataclass_tables import DECIMAL
from bursar.config.yaml.key_tables import (
    BOOLEAN,
    COUNT,
    INTEGER,
    LABEL,
    NUMBER_SCHEMA,
    USD,
    FileKey,
    KeyTable,
    ValueFormat,
    amount,
    by_field,
    by_name,
    choice_of,
    described,
    either,
    list_of,
    mapping,
    read_mapping,
    read_mapping_or_null,
    write_mapping,
)
from bursar.config.yaml.value_readers import InvalidValue
from bursar.config.yaml.yaml_text import Path
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
from bursar.model.units import GIB_MIB, MILLI

DEEPEST = 32
TENANT_REF = {"$ref": "#/$defs/tenant"}


def _scalar_or(scalar: ValueFormat, whole: ValueFormat, build: Any) -> ValueFormat:
    """A mapping, or a scalar from which ``build`` makes the same value."""

    def read(value: Any) -> Any:
        return whole.read(value) if isinstance(value, dict) else build(scalar.read(value))

    return ValueFormat(read, either(scalar.schema, whole.schema), whole.write)


# -- quotas --------------------------------------------------------------------------------------


def _allowance_table(unit: ValueFormat) -> KeyTable:
    limit = ValueFormat(unit.read, {"type": ["number", "null"], "minimum": 0}, unit.write)
    return KeyTable(
        name="an allowance",
        keys={
            "nominal": FileKey("its guaranteed quota", unit),
            "borrow": FileKey(
                "the most it may borrow from other tenants' idle quota; default: no limit",
                limit,
                "borrowing_limit",
            ),
            "lend": FileKey(
                "the most of its idle quota that other tenants may borrow; default: all",
                limit,
                "lending_limit",
            ),
        },
    )


def _allowance(unit: ValueFormat) -> ValueFormat:
    full = mapping(_allowance_table(unit), Quota)
    read = _scalar_or(unit, full, lambda units: Quota(nominal=units))

    def write(quota: Quota) -> Any:
        if quota.borrowing_limit is None and quota.lending_limit is None:
            return unit.write(quota.nominal)
        return full.write(quota)

    return ValueFormat(read.read, read.schema, write)


ALLOWANCE = _allowance_table(amount(1, "unit"))
QUOTA = KeyTable(
    name="a quota",
    keys={
        "gpus": FileKey(
            "GPUs; fractions are allowed", _allowance(amount(MILLI, "thousandth of a GPU")), GPU
        ),
        "cpus": FileKey("CPUs", _allowance(amount(MILLI, "thousandth of a CPU")), CPU),
        "memory_gib": FileKey("GiB of memory", _allowance(amount(GIB_MIB, "MiB")), MEMORY),
    },
)


def _read_quotas(value: Any) -> dict[FlavorResource, Quota]:
    """Quotas by flavor; a number alone is GPUs."""
    quotas: dict[FlavorResource, Quota] = {}
    flavors: set[str] = set()
    for name, amounts in _by_flavor.read(value).items():
        flavor = _flavor(name)
        if flavor in flavors:
            problem = f"is {flavor} again"
            raise InvalidValue(problem, "Write each flavor once.", "duplicate-key").inside(name)
        flavors.add(flavor)
        quotas |= {(flavor, resource): quota for resource, quota in amounts.items()}
    return quotas


def _read_flavor_quota(value: Any) -> dict[str, Quota]:
    if isinstance(value, dict):
        return by_field(read_mapping(value, QUOTA), QUOTA)
    return {GPU: QUOTA.keys["gpus"].format.read(value)}


def _flavor(written: str) -> str:
    """A flavor; its model may be written by any of its names."""
    model, slash, market = written.rpartition("/")
    if not slash:
        fix = f"Write the model and the market, for example '{written}/owned'."
        raise InvalidValue("is not a flavor", fix, "unknown-flavor").inside(written)
    if model.lower() == CPU_ONLY:
        return f"{CPU_ONLY}/{market}"
    try:
        return f"{find_gpu_model(model).name}/{market}"
    except UserError as error:
        problem = "is a flavor of an unknown GPU model"
        raise InvalidValue(problem, error.fix, "unknown-flavor").inside(written) from error


def _write_quotas(quotas: Mapping[FlavorResource, Quota]) -> dict[str, Any]:
    written: dict[str, dict[str, Any]] = {}
    for (flavor, resource), quota in quotas.items():
        for name, filled in QUOTA.fields.items():
            if filled == resource:
                written.setdefault(flavor, {})[name] = QUOTA.keys[name].format.write(quota)
    return {
        flavor: amounts["gpus"]
        if amounts.keys() == {"gpus"} and not isinstance(amounts["gpus"], dict)
        else amounts
        for flavor, amounts in written.items()
    }


_by_flavor = by_name(ValueFormat(_read_flavor_quota, either(NUMBER_SCHEMA, described(QUOTA))))
QUOTAS = ValueFormat(_read_quotas, _by_flavor.schema, _write_quotas)

# -- budgets -------------------------------------------------------------------------------------

BUDGET_STEP = KeyTable(
    name="a step",
    keys={
        "at_percent": FileKey("percentage of the budget at which the step takes effect", COUNT),
        "action": FileKey(
            "notify, block-borrowing, block-new, stop-preemptible or stop-all; "
            "includes the actions before it",
            choice_of(BudgetAction),
        ),
    },
    required=("at_percent", "action"),
)
BUDGET = KeyTable(
    name="a budget",
    keys={
        "usd": FileKey("dollars for each period", USD, "amount_micro_usd"),
        "period": FileKey("day, week, month, quarter or year", choice_of(BudgetPeriod)),
        "enforcement": FileKey(
            "soft: warn. hard: admit only jobs that the remaining budget can pay for",
            choice_of(Enforcement),
        ),
        "steps": FileKey(
            "actions by percentage of the budget; the default depends on enforcement",
            list_of(mapping(BUDGET_STEP, BudgetStep)),
        ),
    },
    required=("usd",),
)
_BUDGET = _scalar_or(
    USD, mapping(BUDGET, Budget), lambda micro_usd: Budget(amount_micro_usd=micro_usd)
)

# -- preemption ----------------------------------------------------------------------------------

BORROWING = KeyTable(
    name="borrow_while_reclaiming",
    keys={"max_priority": FileKey("only jobs up to this priority may be preempted", INTEGER)},
)
_BORROWING = _scalar_or(
    BOOLEAN,
    mapping(BORROWING, BorrowWhileReclaiming),
    lambda allowed: BorrowWhileReclaiming() if allowed else None,
)
PREEMPTION = KeyTable(
    name="preemption",
    keys={
        "within_queue": FileKey(
            "jobs of its own queue: never, lower-priority, "
            "lower-or-newer-equal-priority or later-in-order",
            choice_of(WithinQueue),
        ),
        "reclaim": FileKey(
            "jobs of queues that borrowed: never, lower-priority or any", choice_of(Reclaim)
        ),
        "borrow_while_reclaiming": FileKey(
            "true, or the highest priority that may be preempted",
            ValueFormat(
                _BORROWING.read, _BORROWING.schema, lambda one: _BORROWING.write(one) or True
            ),
        ),
    },
)

# -- tenants -------------------------------------------------------------------------------------


def _read_tenant(value: Any) -> dict[str, Any]:
    return read_mapping_or_null(value, TENANT)


TENANTS = by_name(ValueFormat(_read_tenant, TENANT_REF))
TENANT = KeyTable(
    name="a tenant",
    keys={
        "parent": FileKey("the parent tenant; only for tenants that are not nested", LABEL),
        "children": FileKey("the child tenants, by name", TENANTS),
        "queue": FileKey(
            "whether jobs may be submitted here; default: true without children",
            BOOLEAN,
            "is_queue",
        ),
        "weight": FileKey(
            "its share relative to its siblings; default: 1",
            ValueFormat(DECIMAL.read, NUMBER_SCHEMA),
        ),
        "quotas": FileKey("its quotas by flavor", QUOTAS),
        "budget": FileKey("dollars for each period, spending of its children included", _BUDGET),
        "queueing": FileKey(
            "best-effort: other jobs may pass a blocked job; strict: they may not",
            choice_of(Queueing),
        ),
        "preemption": FileKey(
            "which jobs its waiting jobs may preempt",
            mapping(PREEMPTION, PreemptionPolicy, Tenant(name="default").preemption),
        ),
    },
    without_field=("children",),
)


def flatten(
    tenants: Mapping[str, Any], path: Path = ("tenants",), parent: str | None = None, depth: int = 0
) -> Iterator[tuple[Tenant, Path, Mapping[str, Any]]]:
    """Every tenant with its path and written values, parents before nested children."""
    if depth > DEEPEST:
        problem = f"is nested more than {DEEPEST} deep"
        raise InvalidValue(problem, "Make the tree flatter.", "tree-too-deep").inside(*path)
    for name, values in tenants.items():
        here = (*path, name)
        if "parent" in values and parent is not None:
            problem = f"is given although {name!r} is nested below {parent!r}"
            fix = "Remove it, or move the tenant to the top of the section."
            raise InvalidValue(problem, fix, "two-parents").inside(*here, "parent")
        queue = {"parent": parent, "is_queue": "children" not in values}
        yield Tenant(name=name, **(queue | by_field(values, TENANT))), here, values
        yield from flatten(values.get("children", {}), (*here, "children"), name, depth + 1)


def without_parent_queues(tenants: list[Tenant], explicit: set[str]) -> list[Tenant]:
    """Tenants whose children name them as ``parent`` are no queues, unless written so."""
    parents = {tenant.parent for tenant in tenants} - explicit
    return [
        replace(tenant, is_queue=False) if tenant.name in parents else tenant for tenant in tenants
    ]


def write_tenants(tenants: tuple[Tenant, ...], parent: str | None = None) -> dict[str, Any]:
    """The tree below a tenant, nested."""
    return {
        tenant.name: _write_tenant(tenant, write_tenants(tenants, tenant.name))
        for tenant in tenants
        if tenant.parent == parent
    }


def _write_tenant(tenant: Tenant, children: dict[str, Any]) -> dict[str, Any]:
    inherited = Tenant(name=tenant.name, parent=tenant.parent, is_queue=not children)
    written = write_mapping(tenant, TENANT, inherited)
    return written | ({"children": children} if children else {})

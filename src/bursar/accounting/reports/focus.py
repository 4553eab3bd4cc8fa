"""Line items as rows of FOCUS 1.2, the FinOps Foundation's format for cost and usage.

The organisation that runs the fleet is the provider: teams are its sub-accounts, jobs and pools its
resources. There is no list of unit prices, so list, contracted, effective and billed cost are equal. Values
without a FOCUS column are in columns that begin with ``x_``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeVar

from bursar.accounting.ledger.entry import QUEUE_KINDS, AccountKind, fast_tuple
from bursar.accounting.reports.group_by import write_day
from bursar.accounting.reports.line_item import LineItem
from bursar.model.calendar import period_around
from bursar.model.fleet.fleet import Market, Pool
from bursar.model.tenants.tenant import BudgetPeriod
from bursar.model.units import DAY_MS, HOUR_MS, MILLI, USD_MICRO

VERSION = "1.2"
SERVICE = "Bursar GPU fleet"
ADJUSTMENT = AccountKind.ADJUSTMENT
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"

DECIMAL_SCALE = 1_000_000_000

Value = str | Mapping[str, str] | None
FocusRow = dict[str, Value]
Prepared = TypeVar("Prepared")

COLUMNS = (
    *("AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName"),
    *("BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory"),
    *("ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd"),
    *("ChargePeriodStart", "CommitmentDiscountStatus", "ConsumedQuantity", "ConsumedUnit"),
    "ContractedCost",
    *("EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost", "PricingCategory"),
    *("PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "RegionId"),
    *("RegionName", "ResourceId", "ResourceName", "ResourceType", "ServiceCategory"),
    *("ServiceName", "ServiceSubcategory", "SubAccountId", "SubAccountName", "Tags"),
    *("x_GpuModel", "x_JobId", "x_Kind", "x_Market", "x_Owner", "x_Pool", "x_Project", "x_Queue"),
)
DECIMALS = frozenset(
    {"BilledCost", "ContractedCost", "EffectiveCost", "ListCost"}
    | {"ConsumedQuantity", "PricingQuantity"}
)
DESCRIPTIONS = {
    AccountKind.USAGE: "Usage of a job",
    AccountKind.WASTE: "Lost work of a job",
    AccountKind.IDLE: "Idle capacity",
    AccountKind.RESERVED: "Capacity reserved for a job",
    AccountKind.FOREIGN: "Capacity used by jobs that Bursar did not start",
    AccountKind.ADJUSTMENT: "Difference from the provider's bill",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """The organisation that issues the costs, and its current pools, for their regions."""

    organisation: str
    pools: Mapping[str, Pool] = field(default_factory=dict)


def focus_rows(items: Iterable[LineItem], issuer: Issuer) -> Iterator[FocusRow]:
    """One row for each line item, with every column."""
    for shared, own in split_focus_rows(items, issuer, dict):
        row = shared.copy()
        for name, index in ROW_FIELDS.items():
            row[name] = own[index]
        yield row


def split_focus_rows(
    items: Iterable[LineItem], issuer: Issuer, prepare: Callable[[FocusRow], Prepared]
) -> Iterator[tuple[Prepared, FocusRowFields]]:
    """Rows in two parts: values shared with other rows, prepared once, and values of the row.

    Most values are equal for all jobs of a queue on one day.
    """
    cache: dict[tuple[AccountKind | str | bool, ...], Prepared] = {}
    cached_day_ms = None
    for item in items:
        day_ms, kind, pool, model, market, team, project, queue, _, job_id, *_ = item
        if day_ms != cached_day_ms:
            cached_day_ms = day_ms
            cache.clear()
        key = (kind, pool, model, market, team, project, queue, bool(job_id))
        shared = cache.get(key)
        if shared is None:
            shared = cache[key] = prepare(_shared_values(item, issuer))
        yield shared, _row_fields(item)


def _shared_values(item: LineItem, issuer: Issuer) -> FocusRow:
    """Every column; None in those of the row's own values."""
    organisation = issuer.organisation
    team = item.team or None
    is_adjustment = item.kind is ADJUSTMENT
    pool = issuer.pools.get(item.pool)
    labels = pool.labels if pool is not None else {}
    month_from, month_to = period_around(BudgetPeriod.MONTH, item.day_ms)
    paid_at = "Dynamic" if item.market == Market.SPOT else "Standard"
    source = f"{item.gpu_model} ({item.market}) of {item.pool}"
    return dict.fromkeys(COLUMNS) | {
        "AvailabilityZone": labels.get(ZONE),
        "BillingAccountId": organisation,
        "BillingAccountName": organisation,
        "BillingCurrency": "USD",
        "BillingPeriodEnd": _midnight(month_to),
        "BillingPeriodStart": _midnight(month_from),
        "ChargeCategory": "Adjustment" if is_adjustment else "Usage",
        "ChargeDescription": f"{DESCRIPTIONS[item.kind]}: {source}",
        "ChargeFrequency": "One-Time" if is_adjustment else "Usage-Based",
        "ChargePeriodEnd": _midnight(item.day_ms + DAY_MS),
        "ChargePeriodStart": _midnight(item.day_ms),
        "InvoiceIssuerName": organisation,
        "PricingCategory": None if is_adjustment else paid_at,
        "ProviderName": organisation,
        "PublisherName": organisation,
        "RegionId": labels.get(REGION),
        "RegionName": labels.get(REGION),
        "ResourceType": "Job" if item.kind in QUEUE_KINDS and item.job_id else "Pool",
        "ServiceCategory": "Compute",
        "ServiceName": SERVICE,
        "ServiceSubcategory": "Virtual Machines",
        "SubAccountId": team,
        "SubAccountName": team,
        "x_GpuModel": item.gpu_model,
        "x_Kind": item.kind.value,
        "x_Market": item.market,
        "x_Pool": item.pool,
        "x_Project": item.project or None,
        "x_Queue": item.queue or None,
    }


class FocusRowFields(NamedTuple):
    """The values that differ between jobs."""

    cost: str
    quantity: str | None
    unit: str | None
    resource_id: str
    resource_name: str
    tags: Mapping[str, str] | None
    job_id: str | None
    owner: str | None


_COST, _QUANTITY, _UNIT, _RESOURCE_ID, _RESOURCE_NAME, _TAGS, _JOB_ID, _OWNER = range(8)
ROW_FIELDS = {
    **dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), _COST),
    **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), _QUANTITY),
    **dict.fromkeys(("ConsumedUnit", "PricingUnit"), _UNIT),
    "ResourceId": _RESOURCE_ID,
    "ResourceName": _RESOURCE_NAME,
    "Tags": _TAGS,
    "x_JobId": _JOB_ID,
    "x_Owner": _OWNER,
}
"""The index in ``FocusRowFields`` of each column that differs between jobs."""


def _row_fields(item: LineItem) -> FocusRowFields:
    quantity, unit = _quantity(item)
    job_id, labels = item.job_id, item.labels
    is_job = item.kind in QUEUE_KINDS and bool(job_id)
    fields = (
        write_decimal(item.micro_usd, USD_MICRO),
        quantity,
        unit,
        job_id if is_job else item.pool,
        (item.job_name or job_id) if is_job else item.pool,
        dict(labels) if labels else None,
        job_id or None,
        item.user or None,
    )
    return fast_tuple(FocusRowFields, fields)


def _quantity(item: LineItem) -> tuple[str | None, str | None]:
    """Quantity and unit; an adjustment has neither."""
    if item.kind is ADJUSTMENT:
        return None, None
    if item.gpu_milli_ms:
        return write_decimal(item.gpu_milli_ms, MILLI * HOUR_MS), "GPU-Hours"
    return write_decimal(item.cpu_milli_ms, MILLI * HOUR_MS), "vCPU-Hours"


@lru_cache(maxsize=1_024)
def _midnight(at_ms: int) -> str:
    return f"{write_day(at_ms)}T00:00:00Z"


def write_decimal(amount: int, unit: int) -> str:
    """``amount / unit`` with one to nine decimals, enough for exact micro-dollars.

    There always is a decimal point, because readers that guess types take a column without one for integers.
    """
    scaled = (abs(amount) * DECIMAL_SCALE * 2 + unit) // (2 * unit)
    whole, rest = divmod(scaled, DECIMAL_SCALE)
    text = f"{whole}.{rest:09}".rstrip("0")
    text += "0" if text.endswith(".") else ""
    return f"-{text}" if amount < 0 and scaled else text

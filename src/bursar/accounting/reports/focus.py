"""Line items as rows of FOCUS 1.2, the FinOps Foundation's format for cost and usage.

The organisation that runs the fleet is its provider: teams are its sub-accounts, jobs and pools its
resources. It publishes no list of unit prices, so list, contracted, effective and billed cost are the same,
and there are no unit prices. What has no column in FOCUS is in columns that begin with ``x_``.
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
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"

PLACES = 1_000_000_000

Value = str | Mapping[str, str] | None
FocusRow = dict[str, Value]
Prepared = TypeVar("Prepared")

COLUMNS = (
    *("AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName"),
    *("BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory"),
    *("ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd"),
    *(
        "ChargePeriodStart",
        "CommitmentDiscountStatus",
        "ConsumedQuantity",
        "ConsumedUnit",
        "ContractedCost",
    ),
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
MOMENTS = frozenset(
    {"BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"}
)
DESCRIBED = {
    AccountKind.USAGE: "What a job held",
    AccountKind.WASTE: "Work of a job that was lost",
    AccountKind.IDLE: "Capacity that nobody held",
    AccountKind.RESERVED: "Capacity kept free for a job",
    AccountKind.FOREIGN: "Capacity held by others than Bursar's jobs",
    AccountKind.ADJUSTMENT: "Difference to the provider's bill",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """In whose name: the organisation, and the pools as they are now, for their regions."""

    organisation: str
    pools: Mapping[str, Pool] = field(default_factory=dict)


def focus_rows(items: Iterable[LineItem], issuer: Issuer) -> Iterator[FocusRow]:
    """One row for each line item, with every column."""
    for common, own in focus_parts(items, issuer, dict):
        row = common.copy()
        for name, place in OWN.items():
            row[name] = own[place]
        yield row


def focus_parts(
    items: Iterable[LineItem], issuer: Issuer, prepare: Callable[[FocusRow], Prepared]
) -> Iterator[tuple[Prepared, FocusOwner]]:
    """The same in two parts: what a row has in common with others, prepared, and what is its own.

    Most values are the same for all jobs of a queue on one day: they are found, and prepared, once.
    """
    alike: dict[tuple[AccountKind | str | bool, ...], Prepared] = {}
    before_ms = None
    for item in items:
        day_ms, kind, pool, model, market, team, project, queue, _, job_id, *_ = item
        if day_ms != before_ms:
            before_ms = day_ms
            alike.clear()
        key = (kind, pool, model, market, team, project, queue, bool(job_id))
        known = alike.get(key)
        if known is None:
            known = alike[key] = prepare(_in_common(item, issuer))
        yield known, _own(item)


def _in_common(item: LineItem, issuer: Issuer) -> FocusRow:
    row: FocusRow = dict.fromkeys(COLUMNS)
    row |= _charge(item)
    row |= _times(item.day_ms)
    row |= _who(item, issuer)
    row |= _what(item, issuer)
    return row


class FocusOwner(NamedTuple):
    """What differs from job to job."""

    cost: str
    quantity: str | None
    unit: str | None
    resource_id: str
    resource_name: str
    tags: Mapping[str, str] | None
    job_id: str | None
    owner: str | None


_COST, _QUANTITY, _UNIT, _RESOURCE_ID, _RESOURCE_NAME, _TAGS, _JOB_ID, _OWNER = range(8)
OWN = {
    **dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), _COST),
    **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), _QUANTITY),
    **dict.fromkeys(("ConsumedUnit", "PricingUnit"), _UNIT),
    "ResourceId": _RESOURCE_ID,
    "ResourceName": _RESOURCE_NAME,
    "Tags": _TAGS,
    "x_JobId": _JOB_ID,
    "x_Owner": _OWNER,
}
"""In which columns that stands."""


def _own(item: LineItem) -> FocusOwner:
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
    return fast_tuple(FocusOwner, fields)


def _quantity(item: LineItem) -> tuple[str | None, str | None]:
    """How much, and of what; a difference to a bill is of nothing."""
    if item.kind is AccountKind.ADJUSTMENT:
        return None, None
    if item.gpu_milli_ms:
        return write_decimal(item.gpu_milli_ms, MILLI * HOUR_MS), "GPU-Hours"
    return write_decimal(item.cpu_milli_ms, MILLI * HOUR_MS), "vCPU-Hours"


def _charge(item: LineItem) -> FocusRow:
    found: FocusRow = {"BillingCurrency": "USD"}
    if item.kind is AccountKind.ADJUSTMENT:
        return {**found, "ChargeCategory": "Adjustment", "ChargeFrequency": "One-Time"}
    return {
        **found,
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "PricingCategory": "Dynamic" if item.market == Market.SPOT else "Standard",
    }


@lru_cache(maxsize=1_024)
def _times(day_ms: int) -> Mapping[str, Value]:
    month_from, month_to = period_around(BudgetPeriod.MONTH, day_ms)
    return {
        "BillingPeriodStart": _moment(month_from),
        "BillingPeriodEnd": _moment(month_to),
        "ChargePeriodStart": _moment(day_ms),
        "ChargePeriodEnd": _moment(day_ms + DAY_MS),
    }


def _who(item: LineItem, issuer: Issuer) -> FocusRow:
    return {
        "BillingAccountId": issuer.organisation,
        "BillingAccountName": issuer.organisation,
        "InvoiceIssuerName": issuer.organisation,
        "ProviderName": issuer.organisation,
        "PublisherName": issuer.organisation,
        "SubAccountId": item.team or None,
        "SubAccountName": item.team or None,
        "x_Project": item.project or None,
        "x_Queue": item.queue or None,
    }


def _what(item: LineItem, issuer: Issuer) -> FocusRow:
    pool = issuer.pools.get(item.pool)
    labels = pool.labels if pool is not None else {}
    return {
        "ChargeDescription": f"{DESCRIBED[item.kind]}: {item.gpu_model} ({item.market}) of {item.pool}",
        "ServiceCategory": "Compute",
        "ServiceSubcategory": "Virtual Machines",
        "ServiceName": SERVICE,
        "RegionId": labels.get(REGION),
        "RegionName": labels.get(REGION),
        "AvailabilityZone": labels.get(ZONE),
        "ResourceType": "Job" if item.kind in QUEUE_KINDS and item.job_id else "Pool",
        "x_GpuModel": item.gpu_model,
        "x_Kind": item.kind.value,
        "x_Market": item.market,
        "x_Pool": item.pool,
    }


def _moment(at_ms: int) -> str:
    return f"{write_day(at_ms)}T00:00:00Z"


def write_decimal(amount: int, unit: int) -> str:
    """``amount / unit`` with one to nine places; micro-dollars lose nothing by it.

    There always is a point: readers that guess types take a column of whole numbers for no decimals.
    """
    scaled = (abs(amount) * PLACES * 2 + unit) // (2 * unit)
    whole, rest = divmod(scaled, PLACES)
    text = f"{whole}.{rest:09}".rstrip("0")
    text += "0" if text.endswith(".") else ""
    return f"-{text}" if amount < 0 and scaled else text

"""Line items as rows of FOCUS 1.2, the FinOps Foundation's format for cost and usage.

The organisation that runs the fleet is its provider: teams are its sub-accounts, jobs and pools its
resources. It publishes no list of unit prices, so list, contracted, effective and billed cost are the same,
and there are no unit prices. What has no column in FOCUS is in columns that begin with ``x_``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from bursar.accounting.axis import write_day
from bursar.accounting.entry import OF_QUEUES, AccountKind
from bursar.accounting.line_item import LineItem
from bursar.model.calendar import period_around
from bursar.model.fleet import Market, Pool
from bursar.model.tenant import BudgetPeriod
from bursar.model.units import DAY_MS, HOUR_MS, MILLI, USD_MICRO

VERSION = "1.2"
SERVICE = "Bursar GPU fleet"
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"

PLACES = 1_000_000_000

Value = str | Mapping[str, str] | None
FocusRow = dict[str, Value]

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
    for values in focus_values(items, issuer):
        yield dict(zip(COLUMNS, values, strict=True))


def focus_values(items: Iterable[LineItem], issuer: Issuer) -> Iterator[list[Value]]:
    """The same as lists, in the order of the columns.

    Most values are the same for all jobs of a queue on one day: they are written once and copied.
    """
    alike: dict[tuple[AccountKind | str | bool, ...], list[Value]] = {}
    day_ms = None
    for item in items:
        if item.day_ms != day_ms:
            day_ms = item.day_ms
            alike.clear()
        place = (item.kind, item.pool, item.gpu_model, item.market)
        key = (*place, item.team, item.project, item.queue, bool(item.job_id))
        known = alike.get(key)
        if known is None:
            known = alike[key] = _in_common(item, issuer)
        values = known.copy()
        for column, value in zip(_OWN, _own(item), strict=True):
            values[column] = value
        yield values


def _in_common(item: LineItem, issuer: Issuer) -> list[Value]:
    row: FocusRow = dict.fromkeys(COLUMNS)
    row |= _charge(item)
    row |= _times(item.day_ms)
    row |= _who(item, issuer)
    row |= _what(item, issuer)
    return [row[name] for name in COLUMNS]


OWN = (
    *("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"),
    *("ConsumedQuantity", "ConsumedUnit", "PricingQuantity", "PricingUnit"),
    *("ResourceId", "ResourceName", "Tags", "x_JobId", "x_Owner"),
)
"""What differs from job to job."""
_OWN = tuple(COLUMNS.index(name) for name in OWN)


def _own(item: LineItem) -> tuple[Value, ...]:
    """In the order of ``OWN``."""
    cost = write_decimal(item.micro_usd, USD_MICRO)
    quantity, unit = _quantity(item)
    is_job = item.kind in OF_QUEUES and bool(item.job_id)
    return (
        *(cost, cost, cost, cost),
        *(quantity, unit, quantity, unit),
        item.job_id if is_job else item.pool,
        (item.job_name or item.job_id) if is_job else item.pool,
        dict(item.labels) if item.labels else None,
        item.job_id or None,
        item.user or None,
    )


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
        "ResourceType": "Job" if item.kind in OF_QUEUES and item.job_id else "Pool",
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

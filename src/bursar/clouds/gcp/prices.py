"""Google Cloud prices from the billing catalogue.

The catalogue has prices of CPUs, memory and GPUs, not of machines: a machine's price is the sum of its
components, which the caller supplies. SKUs are matched by description, as they have no other key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from bursar.clouds.https import parse_page, price_fault
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import BadPrice, MachineShape, PriceReading, PriceRow, PriceSource
from bursar.model.units import GIB_MIB, MILLI
from bursar.ports import Clock, Fetch, PriceRequest

COMPUTE = "6F81-5844-456A"
ADDRESS = f"https://cloudbilling.googleapis.com/v1/services/{COMPUTE}/skus?pageSize=5000"
CLOUD = "Google Cloud"
MAX_PAGES = 200
NANO = 1_000_000_000
NANO_PER_MICRO = 1_000
MARKETS = (Market.ON_DEMAND, Market.SPOT)

HOSTS = {
    "n1": "N1 Predefined Instance",
    "g2": "G2 Instance",
    "a2": "A2 Instance",
    "a3": "A3 Instance",
}
"""SKU names of a series' CPUs and memory. A4 has none: its GPU price includes the host."""
WITHOUT_HOST = frozenset({"a4"})
MEGA = "a3-megagpu"
GPUS = {
    "t4-16gb": ("T4 GPU",),
    "l4-24gb": ("L4 GPU",),
    "a100-40gb": ("A100 GPU",),
    "a100-80gb": ("A100 80GB GPU",),
    "h100-80gb": ("H100 80GB GPU",),
    "h200-141gb": ("H200 141GB GPU",),
    "b200-180gb": ("B200 (1 gpu slice)",),
    MEGA: ("H100 80GB Mega GPU", "H100 Mega 80GB GPU", "H100 80GB Plus GPU"),
}
SKIPPED = ("sole tenancy", "custom", "commitment", "reserved", "premium", "dws", "vws")
"""Other offers of the same components."""


class SkuPrice(NamedTuple):
    """Price of one unit of a component."""

    nano_usd: int
    currency: str


class _Sku(NamedTuple):
    description: str
    market: Market
    regions: tuple[str, ...]
    price: SkuPrice


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpPrices:
    """The Google Cloud price feed. ``fetch`` sends the API key in a header."""

    fetch: Fetch
    clock: Clock
    shapes: Mapping[str, MachineShape]

    def read(self, requests: Sequence[PriceRequest]) -> PriceReading:
        """Reads the whole catalogue once and computes the prices of all machines."""
        bad: list[BadPrice] = []
        skus = list(self._skus(bad))
        now_ms = self.clock.now_ms()
        rows: list[PriceRow] = []
        for request in requests:
            for instance_type in request.instance_types:
                for market in MARKETS:
                    try:
                        price = self._machine_price(skus, instance_type, request.region, market)
                    except ValueError as problem:
                        place = f"{instance_type} {market} in {request.region}"
                        bad.append(BadPrice(place=place, problem=str(problem)))
                        continue
                    rows.append(
                        PriceRow(
                            cloud="gcp",
                            region=request.region,
                            instance_type=instance_type,
                            market=market,
                            node_micro_usd_per_hour=round(price.nano_usd / NANO_PER_MICRO),
                            source=PriceSource.QUOTED,
                            as_of_ms=now_ms,
                            currency=price.currency,
                            note="local SSD is not included",
                        )
                    )
        return PriceReading(rows=tuple(rows), bad=tuple(bad))

    def _machine_price(
        self, skus: Iterable[_Sku], instance_type: str, region: str, market: Market
    ) -> SkuPrice:
        """Sum of the components; ``ValueError`` names one without a price."""
        shape = self.shapes.get(instance_type)
        if shape is None:
            raise ValueError("is a machine whose components are unknown")
        offered = [sku for sku in skus if sku.market is market and region in sku.regions]
        nano_usd, currencies = 0, set()
        for amount, per, names in _components(shape):
            prices = [sku.price for sku in offered if any(one in sku.description for one in names)]
            if not prices:
                raise ValueError(f"has no SKU called {' or '.join(names)!r}")
            price = max(prices)
            nano_usd += price.nano_usd * amount // per
            currencies.add(price.currency)
        return SkuPrice(nano_usd, "/".join(sorted(currencies)))

    def _skus(self, bad: list[BadPrice]) -> Iterator[_Sku]:
        url = ADDRESS
        for _ in range(MAX_PAGES):
            page = parse_page(CLOUD, self.fetch(url), "skus", "SKUs")
            for sku in page.get("skus", ()):
                try:
                    parsed = _parse_sku(sku)
                except (ValueError, KeyError, IndexError, TypeError, AttributeError) as problem:
                    name = sku.get("skuId", "?") if isinstance(sku, dict) else "?"
                    text = f"cannot be read ({type(problem).__name__}: {problem})"
                    bad.append(BadPrice(place=f"sku {name}", problem=text))
                    continue
                if parsed is not None:
                    yield parsed
            token = str(page.get("nextPageToken") or "")
            if not token:
                return
            url = f"{ADDRESS}&pageToken={quote(token, safe='')}"
        raise price_fault(CLOUD, f"more than {MAX_PAGES} pages of SKUs")


def _components(shape: MachineShape) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Amount, unit and possible SKU names of each component of a machine."""
    series = shape.instance_type.partition("-")[0]
    if series not in WITHOUT_HOST:
        host = HOSTS.get(series)
        if host is None:
            raise ValueError(f"is of the series {series}, whose SKUs are unknown")
        yield shape.cpu_milli, MILLI, (f"{host} Core",)
        yield shape.memory_mib, GIB_MIB, (f"{host} Ram",)
    names = GPUS.get(MEGA if shape.instance_type.startswith(MEGA) else shape.gpu_model)
    if names is None:
        raise ValueError(f"has {shape.gpu_model} GPUs, whose SKUs are unknown")
    yield shape.gpu_milli, MILLI, names


def _parse_sku(sku: Mapping[str, Any]) -> _Sku | None:
    """Converts a SKU; None if it is not an hourly price of a machine component."""
    category, description = sku["category"], str(sku["description"])
    if category["resourceFamily"] != "Compute":
        return None
    if any(word in description.lower() for word in SKIPPED):
        return None
    usage = category["usageType"]
    if usage not in ("OnDemand", "Preemptible"):
        return None
    # Some spot SKUs of new GPUs have the usage type OnDemand; only their description shows spot.
    is_spot = usage == "Preemptible" or "Spot Preemptible" in description
    expression = sku["pricingInfo"][0]["pricingExpression"]
    if expression["usageUnit"] not in ("h", "GiBy.h"):
        return None
    unit_price = expression["tieredRates"][0]["unitPrice"]
    nano_usd = int(unit_price.get("units", 0)) * NANO + int(unit_price.get("nanos", 0))
    if nano_usd < 0:
        raise ValueError(f"costs {nano_usd / NANO:g}")
    return _Sku(
        description=description,
        market=Market.SPOT if is_spot else Market.ON_DEMAND,
        regions=tuple(sku["serviceRegions"]),
        price=SkuPrice(nano_usd, str(unit_price.get("currencyCode", "USD"))),
    )

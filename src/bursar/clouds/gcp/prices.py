"""Prices of Google's billing catalogue.

The catalogue prices CPUs, memory and GPUs, not machines; a machine's price is the sum of its parts. Which
parts it has is told from outside. SKUs are found by their descriptions, for nothing else tells them apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from bursar.model.errors import EngineFault
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import BadPrice, MachineShape, PriceReading, PriceRow, PriceSource
from bursar.model.units import GIB_MIB, MILLI
from bursar.ports import Clock, Fetch, PriceRequest

COMPUTE = "6F81-5844-456A"
ADDRESS = f"https://cloudbilling.googleapis.com/v1/services/{COMPUTE}/skus?pageSize=5000"
MOST_PAGES = 200
ASK_AGAIN_SECONDS = 900.0
NANO = 1_000_000_000
NANO_PER_MICRO = 1_000
MARKETS = (Market.ON_DEMAND, Market.SPOT)

HOSTS = {
    "n1": "N1 Predefined Instance",
    "g2": "G2 Instance",
    "a2": "A2 Instance",
    "a3": "A3 Instance",
}
"""How the SKUs of a series' CPUs and memory are called; A4 has none, its GPUs carry the machine."""
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
"""Other ways to buy the same parts."""


class SkuPrice(NamedTuple):
    """The price of one part of machines in one region."""

    nano_usd: int
    currency: str


class _Sku(NamedTuple):
    description: str
    market: Market
    regions: tuple[str, ...]
    part: SkuPrice


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpPrices:
    """The billing catalogue as a feed. ``fetch`` brings the API key in a header."""

    fetch: Fetch
    clock: Clock
    shapes: Mapping[str, MachineShape]

    def read(self, wanted: Sequence[PriceRequest]) -> PriceReading:
        """The whole catalogue is read once, then every machine is put together from it."""
        bad: list[BadPrice] = []
        skus = list(self._skus(bad))
        now_ms = self.clock.now_ms()
        rows: list[PriceRow] = []
        for request in wanted:
            for instance_type in request.instance_types:
                for market in MARKETS:
                    try:
                        part = self._machine(skus, instance_type, request.region, market)
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
                            node_micro_usd_per_hour=round(part.nano_usd / NANO_PER_MICRO),
                            source=PriceSource.QUOTED,
                            as_of_ms=now_ms,
                            currency=part.currency,
                            note="local SSD is not in it",
                        )
                    )
        return PriceReading(rows=tuple(rows), bad=tuple(bad))

    def _machine(
        self, skus: Iterable[_Sku], instance_type: str, region: str, market: Market
    ) -> SkuPrice:
        """The sum of the parts; ``ValueError`` names the one that has no price."""
        shape = self.shapes.get(instance_type)
        if shape is None:
            raise ValueError("is a machine of which we do not know the parts")
        there = [sku for sku in skus if sku.market is market and region in sku.regions]
        nano_usd, currencies = 0, set()
        for amount, per, names in _parts_of(shape):
            found = [sku.part for sku in there if any(name in sku.description for name in names)]
            if not found:
                raise ValueError(f"has no SKU called {' or '.join(names)!r}")
            part = max(found)
            nano_usd += part.nano_usd * amount // per
            currencies.add(part.currency)
        return SkuPrice(nano_usd, "/".join(sorted(currencies)))

    def _skus(self, bad: list[BadPrice]) -> Iterator[_Sku]:
        url = ADDRESS
        for _ in range(MOST_PAGES):
            page = _page(self.fetch(url))
            for sku in page.get("skus", ()):
                try:
                    found = _sku_of(sku)
                except (ValueError, KeyError, IndexError, TypeError, AttributeError) as problem:
                    name = sku.get("skuId", "?") if isinstance(sku, dict) else "?"
                    told = f"cannot be read ({type(problem).__name__}: {problem})"
                    bad.append(BadPrice(place=f"sku {name}", problem=told))
                    continue
                if found is not None:
                    yield found
            token = str(page.get("nextPageToken") or "")
            if not token:
                return
            url = f"{ADDRESS}&pageToken={quote(token, safe='')}"
        raise _fault(f"more than {MOST_PAGES} pages of SKUs")


def _parts_of(shape: MachineShape) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """How much of what is in a machine, in which unit, and what the SKU may be called."""
    series = shape.instance_type.partition("-")[0]
    if series not in WITHOUT_HOST:
        host = HOSTS.get(series)
        if host is None:
            raise ValueError(f"is of a series, {series}, whose SKUs we do not know")
        yield shape.cpu_milli, MILLI, (f"{host} Core",)
        yield shape.memory_mib, GIB_MIB, (f"{host} Ram",)
    names = GPUS.get(MEGA if shape.instance_type.startswith(MEGA) else shape.gpu_model)
    if names is None:
        raise ValueError(f"has GPUs, {shape.gpu_model}, whose SKUs we do not know")
    yield shape.gpu_milli, MILLI, names


def _sku_of(sku: Mapping[str, Any]) -> _Sku | None:
    """A part of machines, or None for what is none."""
    category, description = sku["category"], str(sku["description"])
    if category["resourceFamily"] != "Compute":
        return None
    if any(word in description.lower() for word in SKIPPED):
        return None
    usage = category["usageType"]
    if usage not in ("OnDemand", "Preemptible"):
        return None
    # Some spot SKUs of new GPUs say OnDemand, and what they are only in their description.
    is_spot = usage == "Preemptible" or "Spot Preemptible" in description
    expression = sku["pricingInfo"][0]["pricingExpression"]
    if expression["usageUnit"] not in ("h", "GiBy.h"):
        return None
    price = expression["tieredRates"][0]["unitPrice"]
    nano_usd = int(price.get("units", 0)) * NANO + int(price.get("nanos", 0))
    if nano_usd < 0:
        raise ValueError(f"costs {nano_usd / NANO:g}")
    return _Sku(
        description=description,
        market=Market.SPOT if is_spot else Market.ON_DEMAND,
        regions=tuple(sku["serviceRegions"]),
        part=SkuPrice(nano_usd, str(price.get("currencyCode", "USD"))),
    )


def _page(body: bytes) -> dict[str, Any]:
    try:
        page = json.loads(body)
    except ValueError as error:
        raise _fault(f"the answer is not JSON ({error})") from error
    if not isinstance(page, dict) or not isinstance(page.get("skus", []), list):
        raise _fault("the answer has no list of SKUs")
    return page


def _fault(problem: str) -> EngineFault:
    return EngineFault(
        f"Google's prices cannot be read: {problem}. Old prices stand.",
        retry_after_seconds=ASK_AGAIN_SECONDS,
    )

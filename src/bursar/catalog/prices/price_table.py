"""The form of a cloud's table, and how its lines become prices that say where they are from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import MachineShape, PriceRow, PriceSource
from bursar.model.units import GIB_MIB, MILLI

AUGUST_22_2026_MS = 1_787_356_800_000
AUGUST_21_2026_MS = 1_787_270_400_000
JULY_20_2026_MS = 1_784_505_600_000
JUNE_18_2026_MS = 1_781_740_800_000
MAY_2026_MS = 1_777_593_600_000
SEPTEMBER_2026_MS = 1_788_220_800_000
OCTOBER_2026_MS = 1_790_812_800_000
APRIL_28_2025_MS = 1_745_798_400_000
"""Days on which tables were read, and the first days of months of which no day is known."""

TERMS = (1, 3)


class PublishedPrice(NamedTuple):
    """The rate of a commitment of so many years that somebody has published, and when he read it."""

    instance_type: str
    region: str
    years: int
    micro_usd: int
    as_of_ms: int
    terms: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTable:
    """What was read of one cloud, and what part of it the rest usually costs.

    ``reserved_milli`` are thousandths of the on-demand price for one and for three years, by how the
    instance type begins; the first that fits counts. ``spot_milli`` is the same for spot, where none
    was read.
    """

    cloud: str
    shapes: tuple[tuple[str, str, int, int, int], ...]
    rates: Mapping[str, tuple[tuple[str | int, ...], ...]]
    as_of_ms: int
    spot_as_of_ms: int | None = None
    dated_ms: Mapping[str, int] = field(default_factory=dict)
    spot_milli: int = 0
    reserved_milli: tuple[tuple[str, int, int], ...]
    published: tuple[PublishedPrice, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)

    def machines(self) -> Iterator[MachineShape]:
        """Every instance type of the table."""
        for instance_type, model, gpu_milli, cpus, memory_gib in self.shapes:
            yield MachineShape(
                cloud=self.cloud,
                instance_type=instance_type,
                gpu_model=model,
                gpu_milli=gpu_milli,
                cpu_milli=cpus * MILLI,
                memory_mib=memory_gib * GIB_MIB,
            )

    def rows(self) -> Iterator[PriceRow]:
        """Every price of the table, region by region."""
        for region, lines in self.rates.items():
            for instance_type, *amounts in lines:
                yield from self._of_machine(region, str(instance_type), [int(n) for n in amounts])

    def _of_machine(
        self, region: str, instance_type: str, amounts: list[int]
    ) -> Iterator[PriceRow]:
        on_demand, spot, *spread = amounts
        if on_demand:
            price = PriceSource.QUOTED, on_demand
            yield self._row(region, instance_type, Market.ON_DEMAND, price)
        if spot:
            price = PriceSource.OBSERVED, spot
            yield self._row(region, instance_type, Market.SPOT, price, spread=spread)
        elif self.spot_milli:
            price = PriceSource.ESTIMATED, on_demand * self.spot_milli // MILLI
            yield self._row(region, instance_type, Market.SPOT, price)
        yield from self._reserved(region, instance_type, on_demand)

    def _reserved(self, region: str, instance_type: str, on_demand: int) -> Iterator[PriceRow]:
        """A published rate where there is one; a part of the on-demand price where there is that."""
        known = {
            one.years: one
            for one in self.published
            if one.instance_type == instance_type and one.region == region
        }
        parts = next((p for b, *p in self.reserved_milli if instance_type.startswith(b)), None)
        for number, years in enumerate(TERMS):
            if years in known:
                rate = known[years]
                price = PriceSource.PUBLISHED, rate.micro_usd
                row = self._row(region, instance_type, Market.RESERVED, price)
                yield replace(row, term_years=years, as_of_ms=rate.as_of_ms, note=rate.terms)
            elif on_demand and parts is not None:
                price = PriceSource.ESTIMATED, on_demand * parts[number] // MILLI
                row = self._row(region, instance_type, Market.RESERVED, price)
                yield replace(row, term_years=years)

    def _row(
        self,
        region: str,
        instance_type: str,
        market: Market,
        price: tuple[PriceSource, int],
        spread: list[int] | None = None,
    ) -> PriceRow:
        source, micro_usd = price
        dated_ms = self.dated_ms.get(instance_type, self.as_of_ms)
        if source is PriceSource.OBSERVED and self.spot_as_of_ms is not None:
            dated_ms = self.spot_as_of_ms
        return PriceRow(
            cloud=self.cloud,
            region=region,
            instance_type=instance_type,
            market=market,
            node_micro_usd_per_hour=micro_usd,
            source=source,
            as_of_ms=dated_ms,
            low_micro_usd=spread[0] if spread else None,
            high_micro_usd=spread[1] if spread else None,
            note=self.notes.get(instance_type, ""),
        )

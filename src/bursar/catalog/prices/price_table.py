"""Parses the packaged price tables, and estimates prices that were not read.

``prices.csv`` holds only prices that were read, each with its date. Reserved prices, and spot prices of
Azure, that are missing there are estimated as a fraction of the on-demand price and marked as estimates.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from bursar.catalog.prices.price_book import PriceBook
from bursar.model.calendar import day_of_date
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import MachineShape, PriceRow, PriceSource, micro_usd_of
from bursar.model.units import DAY_MS, GIB_MIB, MILLI

SOURCES = {
    Market.ON_DEMAND: PriceSource.QUOTED,
    Market.SPOT: PriceSource.OBSERVED,
    Market.RESERVED: PriceSource.PUBLISHED,
}
TERMS = (1, 3)
SPOT_MILLI = {"azure": 185}
"""Thousandths of the on-demand price, by cloud."""
RESERVED_MILLI: Mapping[str, tuple[tuple[str, int, int], ...]] = {
    "aws": (("g", 630, 430), ("p3.", 630, 430), ("p", 720, 430)),
    "azure": (("Standard_", 660, 470),),
    "gcp": (
        *(("n1-", 630, 460), ("g2-", 630, 450), ("g4-", 690, 450)),
        *(("a2-", 630, 350), ("a3-highgpu", 690, 440), ("a3-megagpu", 690, 440)),
    ),
}
"""Thousandths of the on-demand price for one and three years, by the first matching prefix."""


def read_price_book(machines_csv: str, prices_csv: str) -> PriceBook:
    """The price book of the texts of ``machines.csv`` and ``prices.csv``."""
    machines = list(csv.DictReader(machines_csv.splitlines()))
    notes = {one["instance_type"]: one["note"] for one in machines}
    rows = [_read_row(one, notes) for one in csv.DictReader(prices_csv.splitlines())]
    return PriceBook([*rows, *_estimated(rows, notes)], [_read_machine(one) for one in machines])


def _read_machine(values: Mapping[str, str]) -> MachineShape:
    return MachineShape(
        cloud=values["cloud"],
        instance_type=values["instance_type"],
        gpu_model=values["gpu_model"],
        gpu_milli=int(Decimal(values["gpus"]) * MILLI),
        cpu_milli=int(values["cpus"]) * MILLI,
        memory_mib=int(values["memory_gib"]) * GIB_MIB,
    )


def _read_row(values: Mapping[str, str], notes: Mapping[str, str]) -> PriceRow:
    market, low, high = Market(values["market"]), values["low_usd"], values["high_usd"]
    is_reserved = market is Market.RESERVED
    return PriceRow(
        cloud=values["cloud"],
        region=values["region"],
        instance_type=values["instance_type"],
        market=market,
        node_micro_usd_per_hour=micro_usd_of(values["usd_per_hour"]),
        source=SOURCES[market],
        as_of_ms=day_of_date(values["as_of"]) * DAY_MS,
        term_years=int(values["term_years"] or 0),
        low_micro_usd=micro_usd_of(low) if low else None,
        high_micro_usd=micro_usd_of(high) if high else None,
        note=values["terms"] if is_reserved else notes[values["instance_type"]],
    )


def _estimated(rows: Sequence[PriceRow], notes: Mapping[str, str]) -> Iterator[PriceRow]:
    """Prices of machines with an on-demand price that have no spot or reserved price in the table."""
    known = {(row.region, row.instance_type, row.market, row.term_years) for row in rows}
    for row in rows:
        if row.market is not Market.ON_DEMAND:
            continue
        kind, note = row.instance_type, notes[row.instance_type]
        fractions = [(Market.SPOT, 0, SPOT_MILLI[row.cloud])] if row.cloud in SPOT_MILLI else []
        ratios = next((r for p, *r in RESERVED_MILLI[row.cloud] if kind.startswith(p)), ())
        fractions += [(Market.RESERVED, *one) for one in zip(TERMS, ratios, strict=False)]
        for market, years, milli in fractions:
            if (row.region, kind, market, years) not in known:
                yield replace(
                    row,
                    market=market,
                    term_years=years,
                    node_micro_usd_per_hour=row.node_micro_usd_per_hour * milli // MILLI,
                    source=PriceSource.ESTIMATED,
                    note=note,
                )

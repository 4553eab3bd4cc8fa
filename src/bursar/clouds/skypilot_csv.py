"""Prices of SkyPilot's catalogue files (``vms.csv`` of AWS, Azure or Google Cloud).

Known traps are met here. Files of Google Cloud price hosts and GPUs in rows of their own, which are added
up for machines whose parts are known. A spot price of Azure that equals the on-demand price stands for
one that was not found. How old a file is, only whoever brings it can say.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path

from bursar.model.errors import UserError
from bursar.model.fleet import Market
from bursar.model.price import (
    BadPrice,
    MachineShape,
    PriceReading,
    PriceRow,
    PriceSource,
    micro_usd_of,
)
from bursar.model.units import MILLI

CLOUDS = ("aws", "azure", "gcp")
NEEDED = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region")
ZONE = "AvailabilityZone"
MEGA = "MEGA"

Row = Mapping[str, str]
Place = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFile:
    """A file, of which cloud it is, and when its prices were right.

    ``shapes`` are the machines of Google Cloud to put together, and ``gpu_name`` turns the file's name of
    a GPU into ours; the other clouds need neither.
    """

    path: str
    cloud: str
    as_of_ms: int
    shapes: Mapping[str, MachineShape] = field(default_factory=dict)
    gpu_name: Callable[[str], str] = str.lower


def import_file(file: CatalogFile) -> PriceReading:
    """Read a file from disk."""
    try:
        with Path(file.path).open(encoding="utf-8", newline="") as lines:
            return import_lines(lines, file)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{file.path} cannot be read: {error}.",
            fix="Give a vms.csv of the catalogue, unpacked.",
            code="unreadable-price-file",
        ) from error


def import_lines(lines: Iterable[str], file: CatalogFile) -> PriceReading:
    """The prices of a file; rows that cannot be used are told with their line."""
    if file.cloud not in CLOUDS:
        fix = f"Write one of {', '.join(CLOUDS)}."
        raise UserError(f"{file.cloud!r} is no cloud we import.", fix=fix, code="unknown-cloud")
    reader = csv.DictReader(lines)
    missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        raise UserError(
            f"{file.path}:1: the columns {', '.join(missing)} are missing.",
            fix=f"A catalogue file has the columns {', '.join(NEEDED)}.",
            code="not-a-price-file",
        )
    draft = _Draft(file)
    for row in reader:
        draft.place = f"{file.path}:{reader.line_num}"
        draft.take({key: (value or "").strip() for key, value in row.items() if key is not None})
    return PriceReading(rows=tuple(draft.rows()), bad=tuple(draft.bad))


class _Draft:
    """What was read of a file so far."""

    def __init__(self, file: CatalogFile) -> None:
        self._file = file
        self.place = ""
        self.bad: list[BadPrice] = []
        self._on_demand: dict[Place, int] = {}
        self._spot: dict[tuple[str, str, str], int] = {}
        self._gpus: dict[tuple[str, str, str, int], tuple[int | None, int | None]] = {}
        self._hosts: dict[tuple[str, str, str], tuple[int | None, int | None]] = {}

    def take(self, row: Row) -> None:
        try:
            price, spot = _price(row["Price"]), _price(row["SpotPrice"])
            if not row["Region"]:
                raise ValueError("has no region")
            if self._file.cloud == "gcp":
                self._take_part(row, price, spot)
            elif row["InstanceType"]:
                self._take_machine(row, price, spot)
        except ValueError as problem:
            self.bad.append(BadPrice(place=self.place, problem=str(problem)))

    def _take_machine(self, row: Row, price: int | None, spot: int | None) -> None:
        """A price on demand is one for a region, and stands in the row of each of its zones."""
        machine = row["Region"], row["InstanceType"]
        known = self._on_demand.get(machine)
        if price is not None and known not in (None, price):
            raise ValueError(f"{machine[1]} has two prices on demand in {machine[0]}")
        if price is not None:
            self._on_demand[machine] = price
        if spot is None:
            return
        if self._file.cloud == "azure" and spot == price:
            raise ValueError(
                f"{machine[1]}: spot as dear as on demand stands for a price not found"
            )
        self._spot[*machine, row.get(ZONE, "")] = spot

    def _take_part(self, row: Row, price: int | None, spot: int | None) -> None:
        """A host (an instance type alone) or GPUs (a name and a number alone)."""
        region, zone = row["Region"], row.get(ZONE, "")
        if row["InstanceType"]:
            self._hosts[region, zone, row["InstanceType"]] = price, spot
        elif row["AcceleratorName"] and not row["AcceleratorName"].startswith("tpu"):
            key = region, zone, row["AcceleratorName"], _count_milli(row["AcceleratorCount"])
            self._gpus[key] = price, spot

    def rows(self) -> Iterator[PriceRow]:
        for (region, zone, instance_type), host in sorted(self._hosts.items()):
            self._put_together(region, zone, instance_type, host)
        for (region, instance_type), micro_usd in sorted(self._on_demand.items()):
            yield self._row((region, instance_type), Market.ON_DEMAND, micro_usd, "")
        for (region, instance_type, zone), micro_usd in sorted(self._spot.items()):
            yield self._row((region, instance_type), Market.SPOT, micro_usd, zone)

    def _put_together(
        self, region: str, zone: str, instance_type: str, host: tuple[int | None, int | None]
    ) -> None:
        shape = self._file.shapes.get(instance_type)
        if shape is None:
            return
        is_mega = "mega" in instance_type and "h100" in shape.gpu_model
        for (at, within, name, gpu_milli), gpus in sorted(self._gpus.items()):
            if (at, within, gpu_milli) != (region, zone, shape.gpu_milli):
                continue
            if (MEGA in name) is not is_mega or self._name_of(name) != shape.gpu_model:
                continue
            if host[0] is not None and gpus[0] is not None:
                self._on_demand[region, instance_type] = host[0] + gpus[0]
            if host[1] is not None and gpus[1] is not None:
                self._spot[region, instance_type, zone] = host[1] + gpus[1]

    def _name_of(self, gpu: str) -> str:
        """Our name of a GPU; empty for one that we have never heard of."""
        try:
            return self._file.gpu_name(gpu)
        except UserError:
            return ""

    def _row(self, machine: Place, market: Market, micro_usd: int, zone: str) -> PriceRow:
        return PriceRow(
            cloud=self._file.cloud,
            region=machine[0],
            instance_type=machine[1],
            market=market,
            node_micro_usd_per_hour=micro_usd,
            source=PriceSource.OBSERVED if market is Market.SPOT else PriceSource.QUOTED,
            as_of_ms=self._file.as_of_ms,
            zone=zone,
        )


def _price(text: str) -> int | None:
    if not text:
        return None
    micro_usd = micro_usd_of(text)
    if micro_usd < 0:
        raise ValueError(f"a price of {text} is below 0")
    return micro_usd


def _count_milli(text: str) -> int:
    try:
        return round(Decimal(text) * MILLI)
    except (InvalidOperation, OverflowError, ValueError):
        raise ValueError(f"{text[:30]!r} is not a number of GPUs") from None

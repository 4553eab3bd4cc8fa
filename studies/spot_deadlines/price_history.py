"""The choice of a pool by price alone, over years of listed prices.

The history has no interruptions except times without an offer, so it shows only what following the
price saves.
"""

from __future__ import annotations

import csv
import lzma
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.core.deadline.inputs import DeadlineTerms
from bursar.model.errors import UserError
from bursar.model.units import DAY_MS, MINUTE_MS
from bursar.simulate.spot_study.cells import OPTIMUM, OURS, JobSize, StudyCell, Tally
from bursar.simulate.spot_study.market import PoolTrack, markets
from bursar.simulate.spot_study.optimum import optimum_of_pools
from bursar.simulate.spot_study.replay import replay
from studies.formats.spot_prices import PriceSeries, read_spot_prices
from studies.spot_deadlines.series import choose_starts

PART = "prices"
SPOT_PRICES = "aws_gpu_spot_history_2022-12_2026-08.csv.xz"
ON_DEMAND_PRICES = "aws_gpu_ondemand_changes.csv"
SNAPSHOTS = "aws_snapshot_times.txt.xz"
US_ZONES = ("use1-az", "use2-az", "usw2-az")
US_REGIONS = ("us-east-1", "us-east-2", "us-west-2")
TICK_MS = 30 * MINUTE_MS
EVERY_MS = 14 * DAY_MS
PAST_MS = 4 * DAY_MS
LONGEST_GAP_MS = 2 * DAY_MS

ONE_POOL = "best single pool, chosen afterwards"
FIRST_POOL = "cheapest pool at the start, never changed"

FAMILIES = {
    "1 x V100": ("p3.2xlarge",),
    "1 x A10G": ("g5.2xlarge", "g5.xlarge"),
    "1 x T4": ("g4dn.2xlarge", "g4dn.xlarge"),
    "8 x A100": ("p4d.24xlarge",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesTask:
    """A job every two weeks on one family of machines with the same GPUs."""

    folder: Path
    family: str
    size: JobSize
    rules: Sequence[str]
    limit: int | None = None

    def run(self) -> list[StudyCell]:
        """Runs every rule with a choice of all pools, and ours with each pool alone."""
        types = FAMILIES[self.family]
        history = read_spot_prices(self.folder / SPOT_PRICES, instance_types=types)
        series = [one for one in history.series if one.zone.startswith(US_ZONES) and len(one) > 1]
        if not series:
            raise UserError(
                f"{self.folder / SPOT_PRICES} has no prices of {', '.join(types)}.",
                fix="Use the whole file, or another part of the study.",
                code="no-spot-prices",
            )
        on_demand = on_demand_micro_usd(self.folder / ON_DEMAND_PRICES, types)
        terms = self.size.terms(TICK_MS, on_demand)
        cell = StudyCell(part=PART, group="AWS prices", name=self.family, size=self.size)
        cell.tallies = {rule: Tally() for rule in self.rules}
        alone: dict[str, Tally] = {}
        starts = start_times(self.folder / SNAPSHOTS, terms.deadline_ms)
        for start_ms in choose_starts(starts, self.limit):
            tracks = [_track(one, start_ms, terms.deadline_ms) for one in series]
            _add_start(cell, alone, tracks, terms)
        best = min(alone.values(), key=lambda tally: tally.cost_micro_usd)
        cell.tally(ONE_POOL).merge(best)
        return [cell]


def _add_start(
    cell: StudyCell, alone: dict[str, Tally], tracks: Sequence[PoolTrack], terms: DeadlineTerms
) -> None:
    past = PAST_MS // TICK_MS
    market = markets(tracks, TICK_MS)[past:]
    for rule in sorted(set(POLICIES) & set(cell.tallies)):
        cell.tally(rule).add(replay(terms, market, POLICIES[rule]))
    first = min(
        tracks, key=lambda one: (one.prices_micro_usd[past] or terms.on_demand_micro_usd, one.pool)
    )
    for track in tracks:
        run = replay(terms, markets([track], TICK_MS)[past:], POLICIES[OURS])
        alone.setdefault(track.pool, Tally()).add(run)
        if track is first:
            cell.tally(FIRST_POOL).add(run)
    best = cell.tally(OPTIMUM)
    best.runs += 1
    prices = list(zip(*(track.prices_micro_usd[past:] for track in tracks), strict=True))
    best.cost_micro_usd += optimum_of_pools(terms, prices)


def start_times(snapshots: Path, span_ms: int) -> list[int]:
    """Returns a start every two weeks, except where price snapshots are over two days apart."""
    with lzma.open(snapshots, "rt", encoding="utf-8") as lines:
        times = sorted(int(float(line.split()[0])) * 1_000 for line in lines if line.strip())
    starts = []
    for start_ms in range(times[0] + PAST_MS, times[-1] - span_ms, EVERY_MS):
        inside = times[
            max(0, bisect_right(times, start_ms) - 1) : bisect_left(times, start_ms + span_ms) + 1
        ]
        gaps = [later - sooner for sooner, later in pairwise(inside)]
        if gaps and max(gaps) <= LONGEST_GAP_MS:
            starts.append(start_ms)
    return starts


def on_demand_micro_usd(path: Path, instance_types: Sequence[str]) -> int:
    """Returns the lowest on-demand price of any of the types in the US regions."""
    with path.open(encoding="utf-8", newline="") as lines:
        prices = [
            round(float(row["ondemand_usd_h"]) * 1_000_000)
            for row in csv.DictReader(lines)
            if row["instance_type"] in instance_types
            and row["region"] in US_REGIONS
            and row["ondemand_usd_h"]
        ]
    return min(price for price in prices if price > 0)


def _track(series: PriceSeries, start_ms: int, span_ms: int) -> PoolTrack:
    """The price at each tick, from four days before the start."""
    ticks = (PAST_MS + span_ms) // TICK_MS
    first_ms = start_ms - PAST_MS
    return PoolTrack(
        pool=f"{series.instance_type}@{series.zone}",
        prices_micro_usd=[series.at(first_ms + tick * TICK_MS) or 0 for tick in range(ticks)],
    )

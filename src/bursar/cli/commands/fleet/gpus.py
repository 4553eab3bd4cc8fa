"""``bursar gpus``: GPUs by pool with free count and price, or each with its holder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from bursar.cli.arguments import argument, command, flag, listing
from bursar.cli.terminal.format import per_hour
from bursar.cli.terminal.table import Column, Row, TableSpec, show_list

if TYPE_CHECKING:
    from bursar.client import Client

WHOLE_MILLI: Final = 1_000


@command(
    "gpus",
    argument("--pool", "POOL", "only this pool"),
    flag("--each", "one row for each GPU, with its holder"),
    *listing(200),
    examples=("bursar gpus", "bursar gpus --each --pool t4 --watch"),
)
def gpus(parsed: argparse.Namespace) -> int:
    """List GPUs by pool with free count and price, or each with its holder."""

    def rows(client: Client) -> Sequence[Row]:
        pools = [one for one in client.fleet()["pools"] if parsed.pool in (None, one["name"])]
        return devices_of(pools) if parsed.each else pools

    return show_list(parsed, DEVICES if parsed.each else POOLS, rows)


def devices_of(pools: list[Any]) -> list[Row]:
    """Every GPU of the pools, one row each."""
    return [
        {
            "pool": pool["name"],
            "node": node["id"],
            "gpu_model": pool["gpu_model"],
            "is_up": node["is_up"],
            "is_open": node["is_open"],
            **device,
        }
        for pool in pools
        for node in pool["nodes"]
        for device in node["devices"]
    ]


def _gpu_price(pool: Row) -> str:
    if not pool["gpus_per_node"]:
        return per_hour(pool["node_micro_usd_per_hour"])
    return per_hour(pool["node_micro_usd_per_hour"] // pool["gpus_per_node"])


def _held_by(device: Row) -> str:
    return ", ".join(
        f"{holder['job_id']} ({holder['queue']})" if holder["job_id"] else holder["queue"]
        for holder in device["holders"]
    )


def state_of(device: Row) -> str:
    """The state of a GPU for the table."""
    if not device["is_up"]:
        return "node lost"
    if not device["is_healthy"]:
        return "broken"
    if device["used_milli"]:
        return "busy" if device["used_milli"] >= WHOLE_MILLI else "shared"
    return "free" if device["is_open"] else "drained"


TONES: Final = {"free": "green", "broken": "red", "node lost": "red", "drained": "magenta"}

POOLS: Final = TableSpec(
    columns=(
        Column("POOL", lambda row: row["name"], whole=True),
        Column("GPU", lambda row: row["gpu_model"]),
        Column("MARKET", lambda row: row["market"]),
        Column("NODES", lambda row: row["node_count"], right=True),
        Column("GPUS", lambda row: row["gpu_count"], right=True),
        Column("FREE", lambda row: row["free_gpus"], right=True),
        Column("PRICE PER GPU", _gpu_price, right=True),
        Column("CLUSTER", lambda row: row["cluster"], only_wide=True),
        Column("FLAVOR", lambda row: row["flavor"], only_wide=True),
    ),
    keys=(
        *("name", "cluster", "flavor", "market", "gpu_model", "gpus_per_node", "node_count"),
        *("gpu_count", "free_gpus", "node_micro_usd_per_hour"),
    ),
    nothing="no pool matches; 'bursar fleet apply FILE' adds pools.",
)
DEVICES: Final = TableSpec(
    columns=(
        Column("NODE", lambda row: row["node"], whole=True),
        Column("GPU", lambda row: row["index"], right=True),
        Column("MODEL", lambda row: row["gpu_model"]),
        Column("STATE", state_of, tone=lambda row: TONES.get(state_of(row), "")),
        Column("USED", lambda row: f"{row['used_milli'] // 10} %", right=True),
        Column("SLICES", lambda row: " ".join(row["layout"])),
        Column("HELD BY", _held_by),
        Column("MODE", lambda row: row["mode"], only_wide=True),
        Column("POOL", lambda row: row["pool"], only_wide=True),
    ),
    keys=(
        *("pool", "node", "index", "gpu_model", "mode", "used_milli", "is_healthy", "is_up"),
        *("is_open", "layout", "holders"),
    ),
    nothing="the fleet has no GPUs.",
)

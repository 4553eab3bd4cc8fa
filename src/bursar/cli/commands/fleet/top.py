"""``bursar top``: utilisation and cost of each pool, and the largest jobs."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bursar.cli.arguments import (
    CONNECTION,
    CSV,
    FORMAT,
    JSON,
    YAML,
    argument,
    command,
    flag,
    limit,
    seconds,
)
from bursar.cli.commands.jobs.queue import ACTIVE, LISTING, with_defaults
from bursar.cli.connection import connect, show_activity
from bursar.cli.terminal.format import now_ms
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import print_plain, print_rows, repeat
from bursar.model.units import MILLI, counted, write_usd

if TYPE_CHECKING:
    from bursar.client import Client

BAR: Final = 24


@command(
    "top",
    flag("--once", "print once, even at a terminal"),
    argument("--every", "S", "refresh interval in seconds (default 2)", type=seconds, default=2.0),
    limit(15, "jobs"),
    FORMAT,
    CONNECTION,
    examples=("bursar top", "bursar top --once -o json"),
)
def top(parsed: argparse.Namespace) -> int:
    """Show utilisation and cost of the fleet, the largest jobs and the next ones.

    At a terminal the display is refreshed until Ctrl-C; elsewhere it is printed once.
    """
    is_plain = parsed.output in (JSON, YAML, CSV)
    once = parsed.once or is_plain or not sys.stdout.isatty()
    with connect(parsed) as client:

        def read() -> dict[str, Any]:
            with show_activity("reading the fleet") if once else nullcontext():
                return fleet_overview(client, parsed.limit)

        show = partial(_print_overview, parsed)
        return repeat(None if once else parsed.every, read, show)


def fleet_overview(client: Client, limit: int) -> dict[str, Any]:
    """Pools, running jobs and the next waiting jobs."""
    fleet = client.fleet()
    running = sorted(client.jobs(state=list(ACTIVE)), key=lambda job: (-job["gpus"], job["id"]))
    waiting = list(client.queue(limit=limit))
    return {
        "at_ms": now_ms(),
        "pools": [_utilisation(pool) for pool in fleet["pools"]],
        "running": len(running),
        "micro_usd_per_hour": sum(job["micro_usd_per_hour"] or 0 for job in running),
        "jobs": [*running[:limit], *waiting[: max(0, limit - len(running))]],
    }


def _utilisation(pool: Any) -> dict[str, Any]:
    devices = [device for node in pool["nodes"] for device in node["devices"]]
    return {
        "pool": pool["name"],
        "gpu_count": pool["gpu_count"],
        "free_gpus": pool["free_gpus"],
        "used_milli": sum(device["used_milli"] for device in devices),
        "nodes_down": sum(1 for node in pool["nodes"] if not node["is_up"]),
    }


def _print_overview(parsed: argparse.Namespace, overview: dict[str, Any]) -> None:
    if parsed.output in (JSON, YAML):
        print_plain(parsed.output, overview)
        return
    jobs = [with_defaults(job) for job in overview["jobs"]]
    if parsed.output != CSV:
        for pool in overview["pools"]:
            print(pool_line(pool))
        running = counted(overview["running"], "running job")
        print(f"{running}, {write_usd(overview['micro_usd_per_hour'])}/h\n")
    print_rows(parsed, LISTING, jobs)


def pool_line(pool: dict[str, Any]) -> str:
    """``t4  [######....]  14 of 20 GPUs in use``."""
    total = pool["gpu_count"]
    used = pool["used_milli"] / MILLI
    fraction = min(1.0, used / total) if total else 0.0
    filled = round(fraction * BAR)
    down = f", {counted(pool['nodes_down'], 'node')} lost" if pool["nodes_down"] else ""
    bar = "#" * filled + "." * (BAR - filled)
    return f"{one_line(pool['pool']):<16} [{bar}] {used:g} of {total} GPUs in use{down}"

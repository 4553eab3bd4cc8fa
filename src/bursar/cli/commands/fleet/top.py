"""``bursar top``: the fleet at a glance: how full, how dear, who runs, who waits."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from bursar.cli.arguments import (
    CSV,
    JSON,
    YAML,
    add_connection,
    add_format,
    new_parser,
    one_or_more,
    seconds,
)
from bursar.cli.commands.jobs.queue import ACTIVE, LISTING, one_shape
from bursar.cli.connection import connect, still_at
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.format import now_ms
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import CLEAR, print_plain, print_rows
from bursar.model.units import MILLI, counted, write_usd

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.client import Client

BAR: Final = 24


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    parser = new_parser(
        commands,
        "top",
        (
            "watch the fleet: use and price of each pool, the largest jobs, the next in line",
            "At a terminal it is drawn again every few seconds until Ctrl-C; elsewhere it is shown once.",
        ),
        ("bursar top", "bursar top --once -o json"),
    )
    parser.add_argument("--once", action="store_true", help="show it once, also at a terminal")
    parser.add_argument(
        "--every",
        type=seconds,
        default=2.0,
        metavar="S",
        help="seconds between pictures (default 2)",
    )
    parser.add_argument(
        "--limit", type=one_or_more, default=15, metavar="N", help="so many jobs (default 15)"
    )
    add_format(parser)
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    """Draw once, or again and again."""
    with connect(parsed) as client:
        if parsed.once or not sys.stdout.isatty() or parsed.output in (JSON, YAML, CSV):
            with still_at("looking at the fleet"):
                picture = look(client, parsed.limit)
            _draw(parsed, picture)
            return OK
        try:
            while True:
                picture = look(client, parsed.limit)
                sys.stdout.write(CLEAR)
                _draw(parsed, picture)
                sys.stdout.flush()
                time.sleep(parsed.every)
        except KeyboardInterrupt:
            return OK


def look(client: Client, limit: int) -> dict[str, Any]:
    """What there is to see now."""
    fleet = client.fleet()
    running = sorted(client.jobs(state=list(ACTIVE)), key=lambda job: (-job["gpus"], job["id"]))
    waiting = list(client.queue(limit=limit))
    return {
        "at_ms": now_ms(),
        "pools": [_use(pool) for pool in fleet["pools"]],
        "running": len(running),
        "micro_usd_per_hour": sum(job["micro_usd_per_hour"] or 0 for job in running),
        "jobs": [*running[:limit], *waiting[: max(0, limit - len(running))]],
    }


def _use(pool: Any) -> dict[str, Any]:
    devices = [device for node in pool["nodes"] for device in node["devices"]]
    return {
        "pool": pool["name"],
        "gpu_count": pool["gpu_count"],
        "free_gpus": pool["free_gpus"],
        "used_milli": sum(device["used_milli"] for device in devices),
        "nodes_down": sum(1 for node in pool["nodes"] if not node["is_up"]),
    }


def _draw(parsed: argparse.Namespace, picture: dict[str, Any]) -> None:
    if parsed.output in (JSON, YAML):
        print_plain(parsed.output, picture)
        return
    jobs = [one_shape(job) for job in picture["jobs"]]
    if parsed.output != CSV:
        for pool in picture["pools"]:
            print(pool_line(pool))
        running = "1 job runs" if picture["running"] == 1 else f"{picture['running']:,} jobs run"
        print(f"{running} for {write_usd(picture['micro_usd_per_hour'])}/h\n")
    print_rows(parsed, LISTING, jobs)


def pool_line(pool: dict[str, Any]) -> str:
    """``t4  [######....]  14 of 20 GPUs in use``."""
    in_all = pool["gpu_count"]
    used = pool["used_milli"] / MILLI
    part = min(1.0, used / in_all) if in_all else 0.0
    filled = round(part * BAR)
    down = f", {counted(pool['nodes_down'], 'node')} lost" if pool["nodes_down"] else ""
    bar = "#" * filled + "." * (BAR - filled)
    return f"{one_line(pool['pool']):<16} [{bar}] {used:g} of {in_all} GPUs in use{down}"

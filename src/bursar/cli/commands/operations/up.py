"""``bursar up``: start the server on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from bursar.cli.arguments import argument, command, flag, repeatable, whole
from bursar.cli.terminal.messages import print_note

PORT: Final = 7171


@command(
    "up",
    argument(
        "--fleet", "FILE", "fleet file, or folder of fleet files, to apply at the first start"
    ),
    argument("--state", "DIR", "state folder (default: BURSAR_STATE, else ~/.local/share/bursar)"),
    argument("--database", "URL", "postgresql://... instead of the embedded database"),
    argument("--host", "HOST", "address to listen on (default: loopback)", default="127.0.0.1"),
    argument(
        "--port",
        "PORT",
        f"port to listen on (default {PORT}; 0: any free port)",
        type=whole,
        default=PORT,
    ),
    flag(
        "--allow-remote", "allow an address that other machines can reach; put a TLS proxy in front"
    ),
    repeatable(
        "--allowed-host", "NAME", "host name that clients may use for this server; repeatable"
    ),
    argument("--notify", "FILE", "file with the notification channels (Slack, webhooks, e-mail)"),
    argument("--submit", "DIR", "submit the jobs of this folder if no job was ever submitted"),
    repeatable(
        "--spot-notices",
        "WHERE",
        "poll aws, gcp or azure for interruption notices of this machine's spot nodes, or "
        "NODE=aws@http://host:port for one node; repeatable",
    ),
    examples=("bursar up", "bursar up --fleet fleet.yaml --state ./state --port 9000"),
)
def up(parsed: argparse.Namespace) -> int:
    """Start the server on this machine: API, scheduler and local engine.

    The database is embedded, and jobs run as processes. Without a fleet file, this machine is the fleet.
    Ctrl-C stops the server; jobs keep running, and the next start takes them over.
    """
    from bursar.wiring.serve import UpOptions, default_state, run_up

    return run_up(
        UpOptions(
            fleet=Path(parsed.fleet) if parsed.fleet else None,
            state=Path(parsed.state) if parsed.state else default_state(),
            database=parsed.database,
            host=parsed.host,
            port=parsed.port,
            allow_remote=parsed.allow_remote,
            allowed_hosts=tuple(parsed.allowed_host),
            notify=Path(parsed.notify) if parsed.notify else None,
            submit=Path(parsed.submit) if parsed.submit else None,
            spot_notices=tuple(parsed.spot_notices),
        ),
        print_note,
    )

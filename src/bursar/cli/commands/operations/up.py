"""``bursar up``: the control plane on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import new_parser, whole
from bursar.cli.terminal.messages import print_note

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers

PORT: Final = 7171


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    parser = new_parser(
        commands,
        "up",
        (
            "start the server here: API, scheduler and local engine",
            "Starts everything on this machine: an embedded database, the scheduler, the API, and an "
            "engine that runs jobs as processes. Without a fleet file this machine is the fleet. Ctrl-C "
            "ends the server; jobs go on and are found again at the next start.",
        ),
        ("bursar up", "bursar up --fleet fleet.yaml --state ./state --port 9000"),
    )
    parser.add_argument(
        "--fleet",
        metavar="FILE",
        help="a fleet file, or a folder of them, to declare at the first start",
    )
    parser.add_argument(
        "--state",
        metavar="DIR",
        help="where everything is kept (default: BURSAR_STATE, else ~/.local/share/bursar)",
    )
    parser.add_argument(
        "--database", metavar="URL", help="postgresql://... instead of the embedded database"
    )
    _add_address(parser)
    parser.add_argument(
        "--notify",
        metavar="FILE",
        help="a file with channels (Slack, webhooks, e-mail) through which people are told",
    )
    parser.add_argument(
        "--submit", metavar="DIR", help="submit the jobs of this folder if none ever was"
    )
    parser.add_argument(
        "--spot-notices",
        action="append",
        default=[],
        metavar="WHERE",
        help="ask aws, gcp or azure whether this machine's spot nodes will be taken away, or "
        "NODE=aws@http://host:port for one node; may be given several times",
    )


def _add_address(parser: argparse.ArgumentParser) -> None:
    """Where it answers, and to whom."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="HOST",
        help="the address to answer at (default: loopback)",
    )
    parser.add_argument(
        "--port",
        type=whole,
        default=PORT,
        metavar="PORT",
        help=f"default {PORT}; 0 takes a free one",
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="allow an address that other machines can reach; put TLS before it",
    )
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name that clients may call this server by; may be given several times",
    )


def run(parsed: argparse.Namespace) -> int:
    """Start, and answer until told to stop."""
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

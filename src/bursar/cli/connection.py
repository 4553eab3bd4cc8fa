"""One conversation with the server, and a sign of life when it takes long."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from bursar.cli.terminal.messages import warn

if TYPE_CHECKING:
    from bursar.client import Client

RETRY_SECONDS: Final = 3.0
"""How long a command retries before it reports that the server does not answer."""

QUIET_SECONDS: Final = 2.0
T = TypeVar("T")


def connect(parsed: argparse.Namespace) -> Client:
    """The server that the options, the environment or the state folder name."""
    from bursar.client import Client

    client = Client(
        parsed.server,
        parsed.token,
        timeout_seconds=parsed.timeout,
        retry_seconds=min(RETRY_SECONDS, parsed.timeout),
    )
    if client.is_open_to_listeners:
        warn(f"the token goes to {client.server} in plain text; use an https address.")
    return client


def ask(parsed: argparse.Namespace, question: Callable[[Client], T]) -> T:
    """One question and its answer."""
    with connect(parsed) as client, still_at(f"waiting for {client.server}"):
        return question(client)


@contextmanager
def still_at(doing: str) -> Iterator[None]:
    """Within the block: after two seconds people see what is done and for how long already."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    ticker = threading.Thread(target=_tick, args=(doing, over), daemon=True)
    ticker.start()
    try:
        yield
    finally:
        over.set()
        ticker.join()


def _tick(doing: str, over: threading.Event) -> None:
    began = monotonic()
    drawn = 0
    while not over.wait(QUIET_SECONDS if not drawn else 1.0):
        text = f"{doing} ({monotonic() - began:.0f} s)"
        sys.stderr.write("\r" + text.ljust(drawn))
        sys.stderr.flush()
        drawn = max(drawn, len(text))
    if drawn:
        sys.stderr.write("\r" + " " * drawn + "\r")
        sys.stderr.flush()

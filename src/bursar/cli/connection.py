"""The connection to the server, and a note on the terminal while a call takes long."""

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
"""How long a command retries before it reports that no server responds."""

QUIET_SECONDS: Final = 2.0
T = TypeVar("T")


def connect(parsed: argparse.Namespace) -> Client:
    """A client of the server given by the options, the environment or the state folder."""
    from bursar.client import Client

    client = Client(
        parsed.server,
        parsed.token,
        timeout_seconds=parsed.timeout,
        retry_seconds=min(RETRY_SECONDS, parsed.timeout),
    )
    if client.is_open_to_listeners:
        warn(f"the token is sent to {client.server} unencrypted; use an https address.")
    return client


def ask(parsed: argparse.Namespace, call: Callable[[Client], T]) -> T:
    """Connect, make one call and return its response."""
    with connect(parsed) as client, show_activity(f"waiting for {client.server}"):
        return call(client)


@contextmanager
def show_activity(activity: str) -> Iterator[None]:
    """After two seconds, show on the terminal what is being done and for how long."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    ticker = threading.Thread(target=_tick, args=(activity, done), daemon=True)
    ticker.start()
    try:
        yield
    finally:
        done.set()
        ticker.join()


def _tick(activity: str, done: threading.Event) -> None:
    began = monotonic()
    width = 0
    while not done.wait(QUIET_SECONDS if not width else 1.0):
        text = f"{activity} ({monotonic() - began:.0f} s)"
        sys.stderr.write("\r" + text.ljust(width))
        sys.stderr.flush()
        width = max(width, len(text))
    if width:
        sys.stderr.write("\r" + " " * width + "\r")
        sys.stderr.flush()

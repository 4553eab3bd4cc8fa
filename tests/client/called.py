"""Functions that tests call in jobs. They stand in a module, so that they travel by name."""

from __future__ import annotations

import sys


class Odd(Exception):
    """An exception of a user's own."""


def add(first: int, second: int = 1) -> dict[str, int]:
    sys.stdout.write("adding, without an end of line")
    return {"sum": first + second}


def fail(text: str) -> None:
    raise Odd(text)


def leave() -> None:
    sys.exit(4)


def unsendable() -> object:
    return sys.stdout


def large(size: int) -> bytes:
    return bytes(size)

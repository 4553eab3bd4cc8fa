"""Functions that tests submit as jobs. They are importable, so that they are pickled by name."""

from __future__ import annotations

import sys


class CustomError(Exception):
    """An exception that a user has defined."""


def add(first: int, second: int = 1) -> dict[str, int]:
    sys.stdout.write("adding, without an end of line")
    return {"sum": first + second}


def fail(text: str) -> None:
    raise CustomError(text)


def exit_with_code() -> None:
    sys.exit(4)


def return_unpicklable() -> object:
    return sys.stdout


def return_bytes(size: int) -> bytes:
    return bytes(size)

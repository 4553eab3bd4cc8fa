"""Opaque cursors for paginated lists."""

from __future__ import annotations

import base64
import json
from typing import Any

from bursar.api.http.errors import HttpRefusal
from bursar.api.http.route import Parameter

PAGE_SIZE = 100
LIMIT = Parameter("limit", "The maximum number of items.", minimum=1, maximum=1_000)
CURSOR = Parameter("cursor", "next_cursor of the previous page.", pattern=r"[A-Za-z0-9_-]+")


def write_cursor(*values: object) -> str:
    """Encodes values as a cursor."""
    text = json.dumps(values, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode("utf-8")).decode("ascii").rstrip("=")


def decode_cursor(text: str) -> Any:
    """Decodes a cursor; raises ``ValueError``."""
    padded = text + "=" * (-len(text) % 4)
    try:
        return json.loads(base64.b64decode(padded.encode("ascii"), b"-_", validate=True))
    except RecursionError as error:
        raise ValueError(text) from error


def read_cursor(text: str, *types: type) -> tuple[Any, ...]:
    """Decodes a cursor; its values must be of these types."""
    try:
        values = decode_cursor(text)
    except ValueError as error:
        raise _bad_cursor() from error
    if not isinstance(values, list) or [type(one) for one in values] != list(types):
        raise _bad_cursor()
    if any(isinstance(one, int) and abs(one) >= 2**63 for one in values):
        raise _bad_cursor()
    return tuple(values)


def _bad_cursor() -> HttpRefusal:
    return HttpRefusal(
        "the cursor is not valid.",
        fix="Copy next_cursor of the previous page, or leave it out to start at the beginning.",
        code="bad-cursor",
    )

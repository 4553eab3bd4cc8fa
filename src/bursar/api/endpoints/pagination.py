"""Where a listing goes on. A cursor is a value of ours in a form that invites nobody to write one."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from bursar.api.http.errors import HttpRefusal


def write_cursor(*values: int | str) -> str:
    """A cursor that says these values."""
    text = json.dumps(values, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode("utf-8")).decode("ascii").rstrip("=")


def read_cursor(text: str, *kinds: type) -> tuple[Any, ...]:
    """The values of a cursor, which must be of these types."""
    try:
        padded = text + "=" * (-len(text) % 4)
        values = json.loads(base64.b64decode(padded.encode("ascii"), b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise _not_ours() from error
    if not isinstance(values, list) or [type(one) for one in values] != list(kinds):
        raise _not_ours()
    if any(isinstance(one, int) and abs(one) >= 2**63 for one in values):
        raise _not_ours()
    return tuple(values)


def _not_ours() -> HttpRefusal:
    return HttpRefusal(
        "the cursor is not one that this server gave.",
        fix="Take next_cursor of the page before as it is, or leave it out to begin anew.",
        code="bad-cursor",
    )
